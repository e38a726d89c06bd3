"""In which log directory each replica of this broker lies, told to the controller (KIP-858).

The controller must know it to move leaders away when a directory fails. A replica whose registration
names another directory than the one its log is in is told anew, many in one AssignReplicasToDirs, one
request at a time; what is refused or unanswered is told again, ever more slowly. Only the latest word on
a replica counts, so there is never more than one entry a replica.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)

REPLICAS_PER_REQUEST = 2250
FIRST_BACKOFF_MS = 100
LAST_BACKOFF_MS = 10_000

# The replica is not ours any more, or its topic is gone: nothing to tell.
_SETTLED = (
    ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)

Replica = tuple[bytes, int]


class DirectoryAssignments:
    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch: Callable[[], int] = lambda: -1
        self.wanted: Callable[[], None] = lambda: None
        self._waiting: dict[Replica, bytes] = {}
        self._sent: dict[Replica, bytes] | None = None
        self._due_ms = 0
        self._backoff_ms = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sent or ())

    def submit(self, topic_id: bytes, index: int, directory_id: bytes) -> None:
        replica = (topic_id, index)
        if self._waiting.get(replica) == directory_id:
            return
        if self._sent is not None and self._sent.get(replica) == directory_id:
            return
        self._waiting[replica] = directory_id
        self.wanted()

    def forget(self, topic_id: bytes, index: int) -> None:
        """The controller knows, or the replica is gone."""
        self._waiting.pop((topic_id, index), None)

    @property
    def next_due_ms(self) -> int | None:
        if self._sent is not None or not self._waiting:
            return None
        return self._due_ms

    def take_request(self, now_ms: int) -> AssignReplicasToDirsRequest | None:
        if self._sent is not None or not self._waiting or now_ms < self._due_ms:
            return None
        replicas = list(self._waiting)[:REPLICAS_PER_REQUEST]
        self._sent = {replica: self._waiting.pop(replica) for replica in replicas}
        directories: dict[bytes, dict[bytes, list[int]]] = {}
        for (topic_id, index), directory_id in self._sent.items():
            directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        return AssignReplicasToDirsRequest(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch(),
            directories=[
                AssignReplicasToDirsRequestDirectoryData(
                    id=directory_id,
                    topics=[
                        AssignReplicasToDirsRequestTopicData(
                            topic_id=topic_id,
                            partitions=[
                                AssignReplicasToDirsRequestPartitionData(partition_index=index)
                                for index in indexes
                            ],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory_id, topics in directories.items()
            ],
        )

    def answered(self, response: AssignReplicasToDirsResponse | None, now_ms: int) -> None:
        """The answer, or None if there was none."""
        sent, self._sent = self._sent, None
        if sent is None:
            return
        if response is not None and response.error_code == ErrorCode.NONE:
            for directory in response.directories:
                for topic in directory.topics:
                    for partition in topic.partitions:
                        if partition.error_code in _SETTLED:
                            sent.pop((topic.topic_id, partition.partition_index), None)
        self._backoff_ms = (
            min(max(2 * self._backoff_ms, FIRST_BACKOFF_MS), LAST_BACKOFF_MS) if sent else 0
        )
        self._due_ms = now_ms + self._backoff_ms
        for replica, directory_id in sent.items():
            self._waiting.setdefault(replica, directory_id)
        if self._waiting:
            self.wanted()
