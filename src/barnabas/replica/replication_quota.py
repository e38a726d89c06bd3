"""How many bytes a second throttled replicas may take, so that a reassignment leaves room for clients.

There is one quota for what this broker sends as a leader and one for what it fetches as a follower. Only
replicas that topics name (`leader.replication.throttled.replicas` and its sister) count and wait, and
only while they are not in sync: what keeps a replica in sync is never held back.

The rate is that of the last `replication.quota.window.num` samples of `replication.quota.window.size.
seconds` each. It is looked at before bytes move and told of them afterwards, so a single answer may
exceed it; what follows waits until the average has come down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

ALL: Final = "*"
UNLIMITED: Final = (1 << 63) - 1


class ReplicationQuota:
    """`rate` is in bytes a second; whoever knows the settings sets it and `throttle`s topics."""

    def __init__(self, samples: int = 11, sample_ms: int = 1_000) -> None:
        assert samples >= 1
        assert sample_ms >= 1
        self.rate = UNLIMITED
        self._sample_ms = sample_ms
        self._window_ms = samples * sample_ms
        # The partitions of each topic that are throttled here; None: all of them.
        self._throttled: dict[str, frozenset[int] | None] = {}
        # When a sample began and how many bytes it counts, the oldest first.
        self._samples: deque[list[int]] = deque()

    # ---- who

    def throttle(self, topic: str, replicas: Sequence[str], broker_id: int) -> None:
        """What a topic's setting says of this broker: `partition:broker` pairs, or all."""
        if ALL in replicas:
            self._throttled[topic] = None
            return
        pairs = (each.split(":") for each in replicas)
        found = frozenset(int(index) for index, broker in pairs if int(broker) == broker_id)
        if found:
            self._throttled[topic] = found
        else:
            self._throttled.pop(topic, None)

    def is_throttled(self, topic: str, index: int) -> bool:
        if topic not in self._throttled:
            return False
        indexes = self._throttled[topic]
        return indexes is None or index in indexes

    def holds_back(self, topic: str, index: int, now_ms: int) -> bool:
        """A replica of this partition that is not in sync has to wait."""
        return (
            bool(self._throttled) and self.is_throttled(topic, index) and self.is_exceeded(now_ms)
        )

    # ---- how much

    def record(self, size: int, now_ms: int) -> None:
        self._forget(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= self._sample_ms:
            self._samples.append([now_ms, 0])
        self._samples[-1][1] += size

    def is_exceeded(self, now_ms: int) -> bool:
        if self.rate == UNLIMITED:
            return False
        return self.measured(now_ms) > self.rate

    def measured(self, now_ms: int) -> float:
        """Bytes a second; what was moved a moment ago counts as if a whole sample had passed."""
        self._forget(now_ms)
        if not self._samples:
            return 0.0
        elapsed_ms = max(now_ms - self._samples[0][0], self._sample_ms)
        return 1000 * sum(size for _start_ms, size in self._samples) / elapsed_ms

    def _forget(self, now_ms: int) -> None:
        """Samples that are too old, or of a time that has not come: the clock was set back."""
        samples = self._samples
        if samples and now_ms < samples[-1][0]:
            samples.clear()
        while samples and now_ms - samples[0][0] >= self._window_ms:
            samples.popleft()
