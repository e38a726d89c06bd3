"""Changes of in-sync replicas, from the leaders on this broker to the controller.

A leader that wants to add or drop a follower proposes the new set and goes on working while it waits
for the answer. Until then it does not know which of the two sets holds, so it commits only what all
members of both have (the maximal ISR) and counts only the members of the old one as enough.

Proposals of all partitions travel together in one AlterPartition request, one request at a time. A
proposal stands until it is answered for good: applied, refused, or overtaken by the metadata log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.replica.settings import ReplicaSettings
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)

if TYPE_CHECKING:
    from barnabas.metadata.image import BrokerRegistration
    from barnabas.replica.partition import Partition

logger = logging.getLogger(__name__)

RETRY_MS = 50

# The controller did nothing: the set is what it was.
NOT_APPLIED = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
# The metadata log is ahead of us, or will tell us why: wait for it.
OVERTAKEN = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)


class Proposal(NamedTuple):
    """A set of in-sync replicas, with the broker epoch under which each was seen (-1: not seen)."""

    isr: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int


class IsrManager:
    def __init__(self, broker_id: int, settings: ReplicaSettings) -> None:
        self.broker_id = broker_id
        self.settings = settings
        self.brokers: Mapping[int, BrokerRegistration] = {}
        self.broker_epoch: Callable[[], int] = lambda: -1
        self.wanted: Callable[[], None] = lambda: None
        self.changed: Callable[[Partition], None] = lambda partition: None
        self._waiting: dict[Partition, None] = {}
        self._sent: dict[tuple[bytes, int], tuple[Partition, Proposal]] | None = None
        self._due_ms = 0

    def is_eligible(self, broker_id: int, broker_epoch: int | None) -> bool:
        """Whether a follower may become in sync: alive, staying, and the very one we hear."""
        broker = self.brokers.get(broker_id)
        return (
            broker is not None
            and broker.active
            and broker_epoch is not None
            and broker_epoch in (-1, broker.epoch)
        )

    def is_alive(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def submit(self, partition: Partition) -> None:
        self._waiting[partition] = None
        self.wanted()

    @property
    def next_due_ms(self) -> int | None:
        """When `take_request` will have something; None while there is nothing or one is in flight."""
        if self._sent is not None or not self._waiting:
            return None
        return self._due_ms

    def take_request(self, now_ms: int) -> AlterPartitionRequest | None:
        if self._sent is not None or not self._waiting or now_ms < self._due_ms:
            return None
        topics: dict[bytes, AlterPartitionRequestTopicData] = {}
        sent: dict[tuple[bytes, int], tuple[Partition, Proposal]] = {}
        for partition in self._waiting:
            proposal = partition.pending
            if proposal is None:
                continue
            sent[partition.topic_id, partition.index] = (partition, proposal)
            topic = topics.get(partition.topic_id)
            if topic is None:
                topic = AlterPartitionRequestTopicData(topic_id=partition.topic_id, partitions=[])
                topics[partition.topic_id] = topic
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=partition.index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=broker_id, broker_epoch=epoch)
                        for broker_id, epoch in proposal.isr
                    ],
                    partition_epoch=proposal.partition_epoch,
                )
            )
        self._waiting.clear()
        if not sent:
            return None
        self._sent = sent
        return AlterPartitionRequest(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch(),
            topics=list(topics.values()),
        )

    def answered(self, response: AlterPartitionResponse | None, now_ms: int) -> None:
        """The answer, or None if there was none: then nobody knows, and all are proposed again."""
        sent, self._sent = self._sent, None
        if sent is None:
            return
        answers: dict[tuple[bytes, int], AlterPartitionResponsePartitionData] = {}
        if response is not None and response.error_code == ErrorCode.NONE:
            for topic in response.topics:
                for data in topic.partitions:
                    answers[topic.topic_id, data.partition_index] = data
        self._due_ms = now_ms
        for key, (partition, proposal) in sent.items():
            if partition.pending is not proposal:
                continue  # the metadata log, or a new leader, came first
            answer = answers.get(key)
            if answer is None or self._must_repeat(partition, answer):
                self._waiting[partition] = None
                self._due_ms = now_ms + RETRY_MS
        if self._waiting:
            self.wanted()

    def _must_repeat(
        self, partition: Partition, answer: AlterPartitionResponsePartitionData
    ) -> bool:
        code = answer.error_code
        if code == ErrorCode.NONE:
            if partition.isr_committed(answer.leader_epoch, answer.partition_epoch, answer.isr):
                self.changed(partition)
        elif code in NOT_APPLIED:
            logger.info("%s: the proposed ISR was refused: %s", partition, ErrorCode.of(code).name)
            partition.forget_proposal()
        elif code not in OVERTAKEN:
            return True
        return False
