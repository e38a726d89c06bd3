"""What a leader knows about each of its followers.

A follower tells where its log ends by asking for that offset, so its position is always one request
old, never ahead of the truth. It is caught up at a moment if it then asked for the end of the leader's
log; while the leader is written to all the time that would hardly ever be so, hence a fetch that
reaches where the leader's log ended at the fetch before counts as caught up at the time of that one.
"""

from __future__ import annotations

from barnabas.wire.errors import ApiError, ErrorCode

UNKNOWN_OFFSET = -1
UNKNOWN_EPOCH = -1


class Follower:
    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.reset(0, in_sync=False)

    def __repr__(self) -> str:
        return f"Follower({self.broker_id}, ends at {self.log_end_offset})"

    def reset(self, now_ms: int, *, in_sync: bool) -> None:
        """A new leader knows nothing of positions, and gives those in sync time to ask."""
        self.broker_epoch: int | None = None
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end = 0
        self.last_fetch_ms = 0
        self.last_caught_up_ms = now_ms if in_sync else 0

    def fetched(
        self,
        fetch_offset: int,
        log_start_offset: int,
        broker_epoch: int,
        leader_end: int,
        now_ms: int,
    ) -> None:
        known = self.broker_epoch
        if known is not None and known > broker_epoch:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Received a fetch of broker {self.broker_id} with epoch {broker_epoch}, "
                f"but it has registered with epoch {known} since.",
            )
        if fetch_offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.broker_epoch = broker_epoch
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = now_ms

    def is_caught_up(self, leader_end: int, now_ms: int, lag_time_max_ms: int) -> bool:
        return (
            self.log_end_offset == leader_end or now_ms - self.last_caught_up_ms <= lag_time_max_ms
        )
