"""A method for each operation that programs use. Each returns the JSON of the response, in which
integers that may exceed 2^53 are strings.

`Client.call` reaches every operation of `ROUTES`, those of operators included.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Union

from .errors import Error

Json = Dict[str, Any]
Number = Union[int, str]


class Operations:
    def call(self, operation: str, *path: Any, **fields: Any) -> Any:
        raise NotImplementedError

    def items(self, operation: str, *path: Any, **fields: Any) -> Iterator[Json]:
        """All items of a list, over its pages."""
        cursor: Optional[str] = None
        while True:
            page = self.call(operation, *path, cursor=cursor, **fields)
            yield from page["items"]
            following = page.get("next_cursor")
            if not following:
                return
            if following == cursor:
                raise Error("bad-answer", "the cursor of the next page is that of the same page")
            cursor = following

    # IDs

    def decode(self, id: Number, layout: Optional[str] = None, format: Optional[str] = None) -> Json:
        """The time, worker, sequence and holder of an ID."""
        return self.call("id_parts", id, layout=layout, format=format)

    def uuid(self, version: int = 7) -> str:
        return str(self.call("uuid", version=version)["uuid"])

    def uuids(self, count: int, version: int = 7) -> List[str]:
        return list(self.call("uuids", count=count, version=version)["uuids"])

    def timestamps(self, count: int = 1) -> range:
        """Numbers that increase over all nodes: milliseconds << 18 and a logical counter."""
        answer = self.call("timestamps", count=count)
        return range(int(answer["first"]), int(answer["last"]) + 1)

    def layouts(self) -> Iterator[Json]:
        return self.items("layouts")

    def layout(self, name: str) -> Json:
        return self.call("layout", name)

    def create_layout(self, name: str, **definition: Any) -> Json:
        return self.call("create_layout", name=name, **definition)

    def encode_id(self, layout: str, time: str, worker: int, sequence: int,
                  datacenter: Optional[int] = None) -> Json:
        """Computes an ID. It is not allocated."""
        return self.call("encode_id", layout, time=time, worker=worker, sequence=sequence,
                         datacenter=datacenter)

    # Sequences

    def sequences(self, prefix: Optional[str] = None) -> Iterator[Json]:
        return self.items("sequences", prefix=prefix)

    def sequence(self, name: str, stale: Optional[bool] = None) -> Json:
        return self.call("sequence", name, stale=stale)

    def create(self, name: str, mode: Optional[str] = None, **definition: Any) -> Json:
        """Creates a sequence. If an equal one exists, it is returned."""
        return self.call("create_sequence", name, mode=mode, **definition)

    def update_sequence(self, name: str, **change: Any) -> Json:
        return self.call("update_sequence", name, **change)

    def delete_sequence(self, name: str) -> Json:
        return self.call("delete_sequence", name)

    def advance(self, name: str, to: int) -> Json:
        """Moves a sequence forward."""
        return self.call("advance", name, to=str(to))

    def grant_segment(self, name: str, size: int, after: Optional[str] = None) -> Json:
        return self.call("grant_segment", name, size=str(size), after=after)

    def return_segment(self, name: str, grant: str, unused: int) -> Json:
        return self.call("return_segment", name, grant, unused=unused)

    # Workers

    def workers(self, layout: Optional[str] = None) -> Iterator[Json]:
        return self.items("workers", layout=layout)

    def lease_worker(self, owner: str, layout: str = "default",
                     datacenter: Optional[int] = None) -> Json:
        return self.call("lease_worker", owner=owner, layout=layout, datacenter=datacenter)

    def renew_worker(self, layout: str, id: int, owner: str, lease: str) -> Json:
        return self.call("renew_worker", layout, id, owner=owner, lease=lease)

    def release_worker(self, layout: str, id: int, owner: str, lease: str,
                       last_tick: Optional[int] = None) -> Json:
        return self.call("release_worker", layout, id, owner=owner, lease=lease,
                         last_tick=last_tick)

    # Locks

    def locks(self, prefix: Optional[str] = None) -> Iterator[Json]:
        return self.items("locks", prefix=prefix)

    def lock_state(self, name: str, wait: float = 0, other_than: Optional[Number] = None) -> Json:
        """The holders and waiters of a lock. With `wait`, waits until the holder changes."""
        wait_ms = int(wait * 1000) or None
        return self.call("lock", name, wait=wait, wait_ms=wait_ms, other_than=other_than)

    def verify_lock(self, name: str, token: Number, owner: Optional[str] = None) -> Json:
        """Checks with a linearizable read whether a fencing token holds a lock."""
        return self.call("verify_lock", name, token=str(token), owner=owner)

    def break_lock(self, name: str, token: Optional[Number] = None) -> Json:
        """Ends the hold of another client (scope admin)."""
        return self.call("break_lock", name, token=None if token is None else str(token))

    # Idempotency keys and one-time tokens

    def keys(self, prefix: Optional[str] = None) -> Iterator[Json]:
        return self.items("keys", prefix=prefix)

    def key(self, key: str, stale: Optional[bool] = None) -> Json:
        return self.call("key", key, stale=stale)

    def begin_key(self, key: str, **fields: Any) -> Json:
        return self.call("begin_key", key, **fields)

    def complete_key(self, key: str, claim: str, result: Any = None) -> Json:
        return self.call("complete_key", key, claim=claim, result=result)

    def abandon_key(self, key: str, claim: str) -> Json:
        return self.call("abandon_key", key, claim=claim)

    def delete_key(self, key: str) -> Json:
        return self.call("delete_key", key)

    def issue_tokens(self, count: int = 1, ttl: Optional[float] = None) -> Json:
        return self.call("issue_tokens", count=count, ttl_ms=None if ttl is None else int(ttl * 1000))

    def consume_token(self, token: str, nonce: Optional[str] = None) -> Json:
        """Raises `token-used` unless this call, or one with the same nonce, is the first."""
        return self.call("consume_token", token, nonce=nonce)

    # Cluster

    def cluster(self) -> Json:
        """The cluster as the answering node sees it."""
        return self.call("cluster")
