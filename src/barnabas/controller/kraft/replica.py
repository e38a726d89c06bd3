"""The metadata as this node knows it: every committed record of the log, replayed.

Every node has one, whatever its roles. It is told by its replica of the log what is committed,
makes the next image of it, and publishes that with the delta that led there. What is replayed at the
start, before a first tick or before this node leads, is published as one change.

Records between a `BeginTransactionRecord` and its end count together or not at all: they are kept
apart until the end is there, and dropped if the transaction is aborted.

On the node whose controller is active, the controller has replayed its own records already when it
decided them; their image is taken from it as they are committed, in the same order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.controller.kraft.snapshots import Snapshots, SnapshotSettings
from barnabas.metadata.delta import MetadataDelta, MetadataError
from barnabas.metadata.image import EMPTY, MetadataImage
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
    from barnabas.controller.kraft.controller import KraftController
    from barnabas.raft.listener import Loaded
    from barnabas.raft.raft import Raft
    from barnabas.seams import Background, Clock
    from barnabas.wire.message import Message

logger = logging.getLogger(__name__)

Publisher = Callable[[MetadataImage, MetadataDelta], None]

MAX_REMOVED_TOPICS: Final = 100_000


class MetadataReplica:
    """`publish(image, delta)` is told of every committed change, `failed(error)` once if the
    replica of the log stops."""

    def __init__(
        self,
        *,
        publish: Publisher,
        background: Background,
        clock: Clock,
        settings: SnapshotSettings,
        failed: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self.image: MetadataImage = EMPTY
        self.removed_topic_ids: set[bytes] = set()
        """Topics that the log was seen to remove, up to a bound."""
        self.last_timestamp_ms = 0
        self.bytes_since_snapshot = 0
        self.controller: KraftController | None = None
        self._publish = publish
        self._failed = failed
        self._told_failure = False
        self._transaction: list[Message] | None = None
        self._loading: MetadataDelta | None = MetadataDelta(EMPTY)
        self._place = (-1, 0)
        self._snapshots = Snapshots(self, background, settings, clock.now_ms())
        self._raft: Raft | None = None

    def attach(self, raft: Raft) -> None:
        self._raft = raft

    @property
    def raft(self) -> Raft:
        assert self._raft is not None, "a replica of the metadata needs its log"
        return self._raft

    @property
    def in_transaction(self) -> bool:
        return self._transaction is not None

    # ---- what the log tells

    def load_snapshot(self, loaded: Loaded) -> None:
        self._transaction = None
        self.bytes_since_snapshot = 0
        delta = MetadataDelta(EMPTY)
        self._replay(loaded, delta)
        self._place = (loaded.last_offset, loaded.epoch)
        self.last_timestamp_ms = loaded.timestamp_ms
        if self._loading is not None:
            self._loading = delta
        else:
            self._move(delta.apply(*self._place), delta)

    def committed(self, loaded: Loaded) -> None:
        self.last_timestamp_ms = max(self.last_timestamp_ms, loaded.timestamp_ms)
        if loaded.values:
            self.bytes_since_snapshot += loaded.size
        if self.controller is not None:
            change = self.controller.committed(loaded.last_offset)
            if change is not None:
                assert self._loading is None, "who leads has loaded everything"
                self._transaction = None
                self._move(change.image, change.delta)
                change.answer()
                return
        delta = self._loading or MetadataDelta(self.image)
        self._replay(loaded, delta)
        if self._transaction is None:
            self._place = (loaded.last_offset, loaded.epoch)
            if self._loading is None:
                self._move(delta.apply(*self._place), delta)

    def _replay(self, loaded: Loaded, delta: MetadataDelta) -> None:
        try:
            for value in loaded.values:
                self._replay_one(decode_metadata_record(value)[0], delta)
        except (DecodeError, MetadataError) as error:
            raise LogCorrupt(
                f"the metadata log in {self.raft.log.directory} cannot be replayed at offset "
                f"{loaded.last_offset}: {error}"
            ) from error

    def _replay_one(self, record: Message, delta: MetadataDelta) -> None:
        if isinstance(record, BeginTransactionRecord):
            if self._transaction is not None:
                raise MetadataError("a transaction begins inside another")
            self._transaction = []
        elif isinstance(record, EndTransactionRecord):
            if self._transaction is None:
                raise MetadataError("a transaction ends that did not begin")
            finished, self._transaction = self._transaction, None
            for each in finished:
                self._replay_one(each, delta)
        elif isinstance(record, AbortTransactionRecord):
            if self._transaction is None:
                raise MetadataError("a transaction is aborted that did not begin")
            self._transaction = None
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            room = len(self.removed_topic_ids) < MAX_REMOVED_TOPICS
            if isinstance(record, RemoveTopicRecord) and room:
                self.removed_topic_ids.add(record.topic_id)
            delta.replay(record)

    def loaded(self) -> None:
        """Publish what was replayed so far; from now on each change by itself."""
        delta, self._loading = self._loading, None
        if delta is not None:
            self._move(delta.apply(*self._place), delta)

    def _move(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.image = image
        try:
            self._publish(image, delta)
        except Exception:
            logger.exception("what follows from the metadata at %d failed", image.offset)

    def began_leading(self, epoch: int) -> None:
        self.loaded()
        if self.controller is not None:
            self.controller.began_leading(epoch)

    def stopped_leading(self) -> None:
        if self.controller is not None:
            self.controller.stopped_leading()

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        if leader_id < 0:
            logger.info("the metadata log has no leader in epoch %d", epoch)
        else:
            logger.info("the metadata log is led by node %d in epoch %d", leader_id, epoch)

    # ---- upkeep

    def maintain(self, now_ms: int) -> None:
        """Write a snapshot if one is due; remove what is old."""
        failure = self.raft.failure
        if failure is not None:
            if not self._told_failure:
                self._told_failure = True
                self._failed(failure)
            return
        self.loaded()
        self._snapshots.maintain(now_ms)

    def write_snapshot(self, now_ms: int) -> None:
        """Write one now, whether it is due or not."""
        self._snapshots.write(now_ms)
