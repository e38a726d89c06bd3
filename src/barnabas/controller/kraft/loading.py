"""Replaying the metadata log from its newest snapshot to its end.

Records between a `BeginTransactionRecord` and its end count together or not at all: they are kept
apart until the end is there, and dropped if the transaction is aborted or was never finished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.metadata.delta import MetadataDelta, MetadataError
from barnabas.metadata.image import EMPTY
from barnabas.raft.errors import LogCorrupt
from barnabas.wire.primitives import DecodeError
from barnabas.wire.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    RemoveTopicRecord,
    decode_metadata_record,
)

if TYPE_CHECKING:
    from barnabas.metadata.image import MetadataImage
    from barnabas.raft.quorum import Quorum
    from barnabas.wire.message import Message


class Loading:
    """What the log says so far. `unfinished` tells of a transaction without an end."""

    def __init__(self) -> None:
        self.delta = MetadataDelta(EMPTY)
        self.bytes_since_snapshot = 0
        self.removed_topic_ids: set[bytes] = set()
        self._transaction: list[Message] | None = None

    @property
    def unfinished(self) -> bool:
        return self._transaction is not None

    def replay(self, record: Message) -> None:
        if isinstance(record, RemoveTopicRecord):
            self.removed_topic_ids.add(record.topic_id)
        if isinstance(record, BeginTransactionRecord):
            if self._transaction is not None:
                raise MetadataError("a transaction begins inside another")
            self._transaction = []
        elif isinstance(record, EndTransactionRecord):
            if self._transaction is None:
                raise MetadataError("a transaction ends that did not begin")
            self.delta.replay_all(self._transaction)
            self._transaction = None
        elif isinstance(record, AbortTransactionRecord):
            if self._transaction is None:
                raise MetadataError("a transaction is aborted that did not begin")
            self._transaction = None
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self.delta.replay(record)


def load(quorum: Quorum) -> tuple[MetadataImage, MetadataDelta, Loading]:
    """The image at the end of the log, the delta that made it, and how it went."""
    loading = Loading()
    offset, epoch = -1, 0
    for loaded in quorum.load():
        try:
            for value in loaded.values:
                record, _version = decode_metadata_record(value)
                loading.replay(record)
        except (DecodeError, MetadataError) as error:
            raise LogCorrupt(
                f"the metadata log in {quorum.log.directory} cannot be replayed at offset "
                f"{loaded.last_offset}: {error}"
            ) from error
        offset, epoch = loaded.last_offset, loaded.epoch
        loading.bytes_since_snapshot += loaded.size if loaded.values else 0
    return loading.delta.apply(offset, epoch), loading.delta, loading
