"""Work that is performed once per key, no matter how many callers request it and how often."""

from __future__ import annotations

import inspect
import json
import secrets
import time
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Tuple

from .errors import Error

if TYPE_CHECKING:
    from .client import Client

AGAIN_S = 0.3
LEAST_AGAIN_S = 0.02
"""The shortest pause, as a response may request one of 0 ms."""
MOST_ATTEMPTS = 5
NOT_KEPT = "seqd_result_not_kept"
"""The only field of the result of a key whose work was done, but whose result cannot be stored."""


class Turn(NamedTuple):
    """What the work may depend on."""

    token: int
    """A fencing token, greater than that of every earlier claim."""
    attempt: int
    """Above 1 if earlier claims ended without a result: the work may have been done in part."""


def begin(
    client: "Client", key: str, ttl: float, claim_ttl: float, fingerprint: str, until: float
) -> Tuple[Optional[Turn], str, Any]:
    """This caller's turn and claim, or no turn and the stored result."""
    nonce = secrets.token_hex(16)
    while True:
        try:
            begun = client.call(
                "begin_key", key, ttl_ms=int(ttl * 1000), claim_ttl_ms=int(claim_ttl * 1000),
                fingerprint=fingerprint, nonce=nonce)
            if begun["state"] == "first":
                return Turn(int(begun["token"] or 0), begun["attempt"]), begun["claim"], None
            result = begun.get("result")
            if isinstance(result, dict) and NOT_KEPT in result:
                raise Error("not-kept", f"the work was done, but its result {result[NOT_KEPT]}")
            return None, "", result
        except Error as error:
            may_pass = error.retryable or error.code == "outcome-unknown"
            left = until - time.monotonic()
            if not may_pass or left <= 0:
                raise
            asked = error.retry_after_ms
            time.sleep(min(left, AGAIN_S if asked is None else max(asked / 1000, LEAST_AGAIN_S)))


def complete(client: "Client", key: str, claim: str, result: Any) -> Any:
    """Stores the result, and returns it as every later caller gets it. A key whose result cannot be
    stored is completed nevertheless, because its work must not be done again."""
    try:
        value = json.loads(json.dumps(result, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        reason, cause = f"is not JSON: {error}", error
    else:
        refusal = _store(client, key, claim, value)
        if refusal is None:
            return value
        reason, cause = f"was refused: {refusal.detail}", refusal
    # The cluster always has room for a short result, but the token may have been revoked.
    is_open = _store(client, key, claim, {NOT_KEPT: reason[:100]})
    raise Error("not-kept", f"the work was done, but its result {reason}",
                "its key is still open: another caller begins when the claim expires" if is_open else
                "later callers get this error too; return JSON of at most 16 KiB") from cause


def _store(client: "Client", key: str, claim: str, result: Any) -> Optional[Error]:
    """Completes the key, which is safe to repeat, or returns why the cluster refuses the result."""
    for attempt in range(1, MOST_ATTEMPTS + 1):
        try:
            client.call("complete_key", key, claim=claim, result=result)
            return None
        except Error as error:
            if error.code == "lease-lost":
                raise Error("took-too-long", f"the work was done, but its claim had expired: {error}",
                            status=error.status) from error
            if error.status and 400 <= error.status < 500 and not error.retryable:
                return error
            if attempt == MOST_ATTEMPTS:
                raise Error("outcome-unknown", "the work was done, but it is unknown whether its"
                            f" result was stored: {error}") from error
        time.sleep(AGAIN_S)
    raise AssertionError("the loop returns or raises")


def abandon(client: "Client", key: str, claim: str) -> None:
    """Otherwise the next caller would wait until the claim expires."""
    try:
        client.call("abandon_key", key, claim=claim)
    except Error:
        pass


def arguments(work: Callable[..., Any], turn: Turn) -> Tuple[Any, ...]:
    """The turn, for work with a parameter that needs a value."""
    try:
        parameters = inspect.signature(work).parameters.values()
    except (TypeError, ValueError):
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.kind in positional and p.default is p.empty]
    return (turn,) if needed else ()
