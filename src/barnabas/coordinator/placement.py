"""Which partition of a coordinator's topic a key belongs to.

Every broker and every client that computes this must agree, so it is Java's `String.hashCode`
(31-fold sums over UTF-16 code units, 32 bits) with the sign bit cleared, modulo the number of
partitions.
"""

from __future__ import annotations

from struct import unpack

_SIGN_CLEARED = 0x7FFFFFFF
_MAX_REMEMBERED = 65_536


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode`, as an unsigned number of 32 bits."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in unpack(f">{len(data) >> 1}H", data):
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value


class Placement:
    """`partition_for(key)`, remembering a bounded number of answers."""

    __slots__ = ("_remembered", "partition_count")

    def __init__(self, partition_count: int) -> None:
        self.partition_count = partition_count
        self._remembered: dict[str, int] = {}

    def partition_for(self, key: str) -> int:
        partition = self._remembered.get(key)
        if partition is None:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            partition = (java_string_hash(key) & _SIGN_CLEARED) % self.partition_count
            self._remembered[key] = partition
        return partition
