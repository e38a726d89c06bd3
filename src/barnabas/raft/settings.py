"""The settings `controller.quorum.*`, and the bounds that no setting names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RaftSettings:
    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 1_048_576
    fetch_snapshot_max_bytes: int = 1_048_576
    auto_join: bool = False
    listener_name: str = ""
    """The listener by which voters reach one another; empty: the first that each one has."""

    fetch_max_wait_ms: int = 500
    observer_session_timeout_ms: int = 300_000
    max_observers: int = 10_000

    @property
    def check_quorum_timeout_ms(self) -> int:
        """A leader that no majority has fetched from for so long resigns. It is longer than a
        follower's patience, so that the followers have given the leader up by then."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_quorum_epoch_period_ms(self) -> int:
        """How often a leader reminds a voter that does not fetch."""
        return max(self.fetch_timeout_ms // 2, 1)
