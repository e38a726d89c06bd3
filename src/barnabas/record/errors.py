"""What can be wrong with record bytes.

Two families, because Kafka answers them differently: a batch whose frame or checksum is wrong is
*corrupt* (the bytes were damaged on the way, sending them again may help), a batch that is intact
but says something impossible is *invalid* (sending it again cannot help). Readers raise these;
`validate.py` turns them into `RecordsRefused`, the answer to a peer.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.wire.errors import ApiError, ErrorCode


class BadRecords(Exception):
    """Any reason for which record bytes cannot be used."""


class CorruptBatch(BadRecords):
    """A batch's size, magic or checksum is wrong."""


class TruncatedBatch(CorruptBatch):
    """The buffer ends inside a batch: the usual state of the tail of a fetch or of a torn write."""


class UnsupportedMagic(BadRecords):
    """A message set of format 0 or 1, from before Apache Kafka 0.11: recognised, never read."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"message format {magic} is not supported, only record batches of magic 2")
        self.magic = magic


class InvalidRecords(BadRecords):
    """The records of an intact batch contradict its header, or themselves."""


class CorruptCompression(InvalidRecords):
    """The compressed part of a batch is not what its codec writes."""


class DecompressedTooLarge(InvalidRecords):
    """Decompression would pass the limit the caller set."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the records decompress to more than {limit} bytes")
        self.limit = limit


class RecordsRefused(ApiError):
    """A leader does not append these records. `record_errors` names single ones: (index, why)."""

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        record_errors: Sequence[tuple[int, str]] = (),
    ) -> None:
        super().__init__(code, message)
        self.record_errors = list(record_errors)
