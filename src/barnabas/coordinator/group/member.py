"""One member of a classic group.

A member has at most one parked JoinGroup and one parked SyncGroup: `join_reply` and `sync_reply`
are how they are answered, each exactly once, after which they are None again. They are set and
cleared only by `ClassicGroup`, which counts them.

The session is a deadline and, apart from it, a timer. A heartbeat only moves the deadline; the
timer keeps its place and looks at the deadline when it fires (`sessions.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.wire.messages.join_group import JoinGroupResponse
    from barnabas.wire.messages.sync_group import SyncGroupResponse

JoinReply = Callable[["JoinGroupResponse"], None]
SyncReply = Callable[["SyncGroupResponse"], None]


class Timer(Protocol):
    def cancel(self) -> None: ...


class Member:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join_reply",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_deadline_ms",
        "session_timeout_ms",
        "session_timer",
        "session_timer_due_ms",
        "sync_reply",
    )

    def __init__(
        self,
        member_id: str,
        *,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: dict[str, bytes],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        # In the member's order of preference.
        self.protocols = protocols
        self.assignment = assignment
        # True until its first JoinGroup is answered: it does not know its id, so cannot heartbeat.
        self.is_new = False
        self.join_reply: JoinReply | None = None
        self.sync_reply: SyncReply | None = None
        self.session_deadline_ms = 0
        self.session_timer: Timer | None = None
        self.session_timer_due_ms = 0

    def __repr__(self) -> str:
        return f"Member({self.member_id!r}, instance {self.group_instance_id!r})"

    def matches(self, protocols: dict[str, bytes]) -> bool:
        """Same protocols, same metadata, same order."""
        return list(self.protocols.items()) == list(protocols.items())

    @property
    def protocol_bytes(self) -> int:
        return protocol_bytes(self.protocols)


def protocol_bytes(protocols: dict[str, bytes]) -> int:
    return sum(len(name) + len(metadata) for name, metadata in protocols.items())
