"""The last offset of every key in the part of a log that is being compacted.

Keys longer than a digest are kept as their digest: two keys that share one (128 bits) would be taken
for the same, which Apache Kafka accepts as well. The map has a bound on its entries, made from the
bytes it may use; when it is full, the rest of the log waits for the next round.
"""

from __future__ import annotations

from hashlib import blake2b

DIGEST_SIZE = 16
BYTES_PER_ENTRY = 160  # a key, an offset and their slot in the dictionary


class OffsetMap:
    __slots__ = ("_offsets", "capacity", "latest_offset")

    def __init__(self, max_bytes: int, load_factor: float = 0.9) -> None:
        self.capacity = max(int(max_bytes * load_factor) // BYTES_PER_ENTRY, 1)
        self.latest_offset = -1
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self.capacity

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[_short(key)] = offset

    def get(self, key: bytes) -> int:
        """The last offset of `key`, or -1."""
        return self._offsets.get(_short(key), -1)


def _short(key: bytes) -> bytes:
    # One byte longer than any short key, so that a digest is never equal to a key.
    if len(key) <= DIGEST_SIZE:
        return key
    return b"#" + blake2b(key, digest_size=DIGEST_SIZE).digest()
