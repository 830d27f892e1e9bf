"""The errors of this library. Each has a stable code, such as `no-quorum`."""

from __future__ import annotations

from typing import Any, Dict, Optional


class Error(Exception):
    """The reason why a call has no result.

    `code` is a code of the cluster (`/problems/CODE`), or one of this library: `unreachable`,
    `no-answer`, `bad-answer`, `unknown-layout`, `window-ended`, `no-lease`, `clock-jumped`,
    `clock-ahead`, `busy`, `sequence-cycled`, `closed`, `forked`, `lock-lost`, `took-too-long` and
    `not-kept` (docs/clients/COMMON.md). `retryable` means that the call certainly had no effect and
    may be made again. After `outcome-unknown` the request may have taken effect.
    """

    def __init__(
        self,
        code: str,
        detail: str = "",
        hint: Optional[str] = None,
        retryable: bool = False,
        status: Optional[int] = None,
        retry_after_ms: Optional[int] = None,
        problem: Optional[Dict[str, Any]] = None,
    ) -> None:
        text = f"{detail} ({code})" if detail else code
        super().__init__(f"{text}; hint: {hint}" if hint else text)
        self.code = code
        self.detail = detail
        self.hint = hint
        self.retryable = retryable
        self.status = status
        self.retry_after_ms = retry_after_ms
        self.problem = problem or {}
        """All fields of the response, such as the holder of a held lock."""


class LockLost(Error):
    """A lock is no longer held: it was not renewed in time, taken away or released. Its code is
    `lock-lost`, or `forked` if this process is a fork of the holder."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__("forked" if reason == "forked" else "lock-lost", detail)
        self.reason = reason
        """`ran-out`, `taken-away`, `released` or `forked`."""


def of_problem(status: int, problem: Dict[str, Any]) -> Error:
    """The error of a response in problem+json."""
    return Error(
        str(problem["code"]),
        str(problem.get("detail") or problem.get("title") or ""),
        problem.get("hint"),
        bool(problem.get("retryable")),
        status,
        problem.get("retry_after_ms"),
        problem,
    )
