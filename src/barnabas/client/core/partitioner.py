"""Which partition a record goes to.

A key is hashed with murmur2 exactly as Apache's Java client does, so that clients of all kinds put a
key in one place. Records without a key stick to one partition until a batch worth of bytes went there
(KIP-794), then move on: full batches, evenly spread over time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 with its seed, as an unsigned 32-bit number."""
    length = len(data)
    h = (0x9747B28C ^ length) & _MASK
    whole = length & ~3
    for i in range(0, whole, 4):
        k = data[i] | data[i + 1] << 8 | data[i + 2] << 16 | data[i + 3] << 24
        k = (k * _M) & _MASK
        k ^= k >> 24
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    rest = length - whole
    if rest == 3:
        h ^= data[whole + 2] << 16
    if rest >= 2:
        h ^= data[whole + 1] << 8
    if rest >= 1:
        h = ((h ^ data[whole]) * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    return h ^ (h >> 15)


def partition_for_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """The partition for keyless records of one topic."""

    __slots__ = ("_bytes_left", "_current", "_random", "_stick_bytes")

    def __init__(self, stick_bytes: int, random: Callable[[], float]) -> None:
        self._stick_bytes = max(stick_bytes, 1)
        self._random = random
        self._current = -1
        self._bytes_left = 0

    def choose(self, size: int, available: Sequence[int]) -> int:
        """The partition for a record of `size` bytes among those that have a leader."""
        if self._bytes_left <= 0 or self._current not in available:
            others = [p for p in available if p != self._current] or list(available)
            self._current = others[int(self._random() * len(others)) % len(others)]
            self._bytes_left = self._stick_bytes
        self._bytes_left -= size
        return self._current
