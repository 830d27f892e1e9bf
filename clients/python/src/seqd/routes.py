"""The operations of the HTTP interface: `id: method, path, repeat, query fields, body fields`.

`repeat` is the rule for sending a request again after its response was lost. A test compares the
rows with `docs/openapi.json` and `clients/vectors.json`. Operations that do not answer with JSON are
left out.
"""

from __future__ import annotations

from typing import Dict, NamedTuple


class Route(NamedTuple):
    method: str
    path: str
    repeat: str
    """`harmless`, `with-nonce` or `never`."""
    query: str
    body: str


ROUTES: Dict[str, Route] = {
    id: Route(*row)
    for id, row in {
        "id": ("GET", "/v1/id", "harmless", "format id_prefix layout numeric pad", ""),
        "ids": ("GET", "/v1/ids", "harmless", "count format id_prefix layout numeric pad", ""),
        "id_parts": ("GET", "/v1/ids/{id}", "harmless", "format layout", ""),
        "uuid": ("GET", "/v1/uuid", "harmless", "version", ""),
        "uuids": ("GET", "/v1/uuids", "harmless", "count version", ""),
        "timestamps": ("POST", "/v1/timestamps/next", "harmless", "", "count"),
        "layouts": ("GET", "/v1/layouts", "harmless", "cursor limit prefix", ""),
        "create_layout": (
            "POST", "/v1/layouts", "never",
            "dry_run", "datacenter_bits epoch first_sequence name order sequence_bits tick_ms time_bits worker_bits",
        ),
        "layout": ("GET", "/v1/layouts/{name}", "harmless", "modulus rate", ""),
        "encode_id": (
            "POST", "/v1/layouts/{name}/encode", "harmless",
            "", "datacenter sequence time worker",
        ),
        "sequences": ("GET", "/v1/sequences", "harmless", "cursor limit prefix stale", ""),
        "sequence": ("GET", "/v1/sequences/{name}", "harmless", "stale", ""),
        "create_sequence": (
            "PUT", "/v1/sequences/{name}", "never",
            "dry_run", "cycle description increment max min mode segment start",
        ),
        "update_sequence": (
            "PATCH", "/v1/sequences/{name}", "never",
            "dry_run", "cycle description increment max min mode segment start",
        ),
        "delete_sequence": ("DELETE", "/v1/sequences/{name}", "never", "dry_run", ""),
        "next": ("POST", "/v1/sequences/{name}/next", "never", "", "contiguous count expand"),
        "advance": ("POST", "/v1/sequences/{name}/advance", "never", "dry_run", "to"),
        "grant_segment": ("POST", "/v1/sequences/{name}/segments", "never", "", "after size"),
        "return_segment": (
            "DELETE", "/v1/sequences/{name}/segments/{grant}", "never",
            "unused", "",
        ),
        "keys": ("GET", "/v1/idempotency", "harmless", "cursor limit prefix requests tenant", ""),
        "delete_keys": (
            "DELETE", "/v1/idempotency", "never",
            "cursor limit prefix requests tenant dry_run", "",
        ),
        "key": ("GET", "/v1/idempotency/{key}", "harmless", "stale", ""),
        "delete_key": ("DELETE", "/v1/idempotency/{key}", "never", "dry_run", ""),
        "begin_key": (
            "POST", "/v1/idempotency/{key}/begin", "with-nonce",
            "", "claim_ttl_ms fingerprint nonce ttl_ms",
        ),
        "complete_key": ("POST", "/v1/idempotency/{key}/complete", "harmless", "", "claim result"),
        "abandon_key": ("POST", "/v1/idempotency/{key}/abandon", "never", "", "claim"),
        "one_time_tokens": ("GET", "/v1/tokens", "harmless", "cursor limit tenant", ""),
        "issue_tokens": ("POST", "/v1/tokens", "harmless", "", "count ttl_ms"),
        "delete_all_one_time": ("DELETE", "/v1/tokens", "never", "cursor limit tenant dry_run", ""),
        "delete_one_time": ("DELETE", "/v1/tokens/{token}", "never", "dry_run", ""),
        "consume_token": ("POST", "/v1/tokens/{token}/consume", "with-nonce", "", "nonce"),
        "workers": ("GET", "/v1/workers", "harmless", "cursor layout limit past prefix", ""),
        "lease_worker": ("POST", "/v1/workers", "never", "", "datacenter layout owner"),
        "renew_worker": ("PUT", "/v1/workers/{layout}/{id}/lease", "harmless", "", "lease owner"),
        "release_worker": (
            "DELETE", "/v1/workers/{layout}/{id}/lease", "never",
            "last_tick lease owner", "",
        ),
        "locks": ("GET", "/v1/locks", "harmless", "cursor limit prefix stale", ""),
        "lock": ("GET", "/v1/locks/{name}", "harmless", "other_than stale wait_ms", ""),
        "acquire_lock": (
            "POST", "/v1/locks/{name}/acquire", "never",
            "", "lease lock_delay_ms nonce owner permits shared ttl_ms wait_ms",
        ),
        "renew_lock": ("POST", "/v1/locks/{name}/renew", "harmless", "", "lease ttl_ms"),
        "release_lock": ("POST", "/v1/locks/{name}/release", "never", "", "lease"),
        "break_lock": ("POST", "/v1/locks/{name}/break", "never", "dry_run", "token"),
        "verify_lock": ("POST", "/v1/locks/{name}/verify", "harmless", "", "owner token"),
        "cluster": ("GET", "/v1/cluster", "harmless", "", ""),
        "members": ("GET", "/v1/cluster/members", "harmless", "cursor limit prefix", ""),
        "add_member": ("POST", "/v1/cluster/members", "never", "dry_run", "http name peer"),
        "remove_member": ("DELETE", "/v1/cluster/members/{name}", "never", "dry_run", ""),
        "promote_member": ("POST", "/v1/cluster/members/{name}/promote", "never", "dry_run", ""),
        "update_member": ("PATCH", "/v1/cluster/members/{name}", "never", "dry_run", "http peer"),
        "demote_member": ("POST", "/v1/cluster/members/{name}/demote", "never", "dry_run", ""),
        "drain_member": ("POST", "/v1/cluster/members/{name}/drain", "harmless", "dry_run", ""),
        "resume_member": ("POST", "/v1/cluster/members/{name}/resume", "harmless", "dry_run", ""),
        "facts": ("GET", "/v1/cluster/facts", "harmless", "", ""),
        "reset_workers": (
            "POST", "/v1/cluster/members/{name}/reset-workers", "never",
            "dry_run", "",
        ),
        "move_leader": ("POST", "/v1/cluster/leader", "never", "dry_run", "node"),
        "tokens": ("GET", "/v1/access", "harmless", "cursor limit prefix", ""),
        "create_token": (
            "POST", "/v1/access", "never",
            "dry_run", "description per_second scopes ttl_ms",
        ),
        "revoke_token": ("DELETE", "/v1/access/{id}", "never", "dry_run", ""),
        "config": ("GET", "/v1/config", "harmless", "", ""),
        "version": ("GET", "/version", "harmless", "", ""),
    }.items()
}
