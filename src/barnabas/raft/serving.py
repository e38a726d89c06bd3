"""Fetch and FetchSnapshot, as a leader answers them.

A fetch that finds nothing new waits, for as long as the replica allows: until something is appended,
or committed that it does not know of, or until there is another leader. A replica has one fetch
waiting at most. What is wrong with where it fetches is told at once: where its log and this one
part, or which snapshot it needs.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.raft.incoming import is_our_cluster, leader_endpoint_for
from barnabas.raft.leader import Leader, WaitingFetch
from barnabas.raft.partition import METADATA_TOPIC, only_partition
from barnabas.raft.replica import Replica
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voters import ReplicaKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages import fetch, fetch_snapshot
from barnabas.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseTopicSnapshot,
)
from barnabas.wire.uuids import METADATA_TOPIC_ID

NONE = ErrorCode.NONE
TOPIC_IDS_FROM = 13
REPLICA_STATE_FROM = 15
ENDPOINTS_FROM = 17

Reply = Callable[[Message], None]


def check_leader_request(replica: Replica, epoch: int) -> ErrorCode:
    if epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > replica.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if replica.leader is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.BROKER_NOT_AVAILABLE if replica.is_shutting_down else NONE


class FetchServer:
    def __init__(self, replica: Replica, progressed: Callable[[int], None]) -> None:
        self._replica = replica
        self._progressed = progressed

    def handle_fetch(
        self, version: int, request: FetchRequest, now_ms: int, reply: Reply, listener_name: str
    ) -> None:
        replica = self._replica
        if not is_our_cluster(replica, request.cluster_id):
            reply(FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
            return
        asked = self._asked(version, request)
        if asked is None:
            reply(FetchResponse(error_code=ErrorCode.INVALID_REQUEST))
            return
        error = self._check(request, asked)
        if error is not NONE:
            reply(self._answer(version, listener_name, PartitionData(error_code=error)))
            return
        key = _replica_key(version, request, asked)
        leader = replica.leader
        assert leader is not None
        earlier = leader.waiting.pop(key, None)
        if earlier is not None:
            self._finish(earlier)
        data = self._read(leader, key, request, asked, now_ms)
        if self._is_news(asked, data) or request.max_wait_ms == 0 or replica.leader is not leader:
            reply(self._answer(version, listener_name, data))
            return
        deadline_ms = now_ms + request.max_wait_ms
        leader.waiting[key] = WaitingFetch(version, request, listener_name, deadline_ms, reply)

    def _asked(self, version: int, request: FetchRequest) -> FetchPartition | None:
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return None
        topic = request.topics[0]
        if version >= TOPIC_IDS_FROM:
            known = topic.topic_id == METADATA_TOPIC_ID
        else:
            known = topic.topic == METADATA_TOPIC
        partition = topic.partitions[0]
        return partition if known and partition.partition == 0 else None

    def _check(self, request: FetchRequest, asked: FetchPartition) -> ErrorCode:
        if (
            request.max_wait_ms < 0
            or asked.fetch_offset < 0
            or asked.current_leader_epoch < 0
            or not 0 <= asked.last_fetched_epoch <= asked.current_leader_epoch
        ):
            return ErrorCode.INVALID_REQUEST
        return check_leader_request(self._replica, asked.current_leader_epoch)

    def _read(
        self,
        leader: Leader,
        key: ReplicaKey,
        request: FetchRequest,
        asked: FetchPartition,
        now_ms: int,
    ) -> PartitionData:
        replica = self._replica
        log = replica.log
        validity = log.validate(asked.fetch_offset, asked.last_fetched_epoch)
        if key.node_id >= 0 and key.node_id != replica.node_id:
            if validity.diverging is None and validity.snapshot is None:
                leader.fetched(key, asked.fetch_offset, log.end_offset, now_ms)
                self._progressed(now_ms)
            else:
                leader.seen(key, now_ms)
        data = PartitionData(log_start_offset=log.start_offset)
        if leader.has_committed:
            data.high_watermark = replica.high_watermark
        else:
            data.high_watermark = -1
        if validity.snapshot is not None:
            data.snapshot_id = fetch.SnapshotId(
                end_offset=validity.snapshot.offset, epoch=validity.snapshot.epoch
            )
        elif validity.diverging is not None:
            data.diverging_epoch = fetch.EpochEndOffset(
                epoch=validity.diverging.epoch, end_offset=validity.diverging.offset
            )
        elif asked.fetch_offset < log.end_offset:
            max_bytes = min(max(request.max_bytes, 0), replica.settings.fetch_max_bytes)
            data.records = log.read(asked.fetch_offset, max_bytes)
        return data

    def _is_news(self, asked: FetchPartition, data: PartitionData) -> bool:
        return (
            bool(data.records)
            or data.diverging_epoch.epoch >= 0
            or data.snapshot_id.epoch >= 0
            or asked.high_watermark < data.high_watermark
        )

    def _answer(self, version: int, listener_name: str, data: PartitionData) -> FetchResponse:
        replica = self._replica
        data.current_leader = fetch.LeaderIdAndEpoch(
            leader_id=replica.leader_id, leader_epoch=replica.epoch
        )
        if data.error_code != NONE:
            data.high_watermark = -1
        if data.records is None:
            data.records = b""
        topic = FetchableTopicResponse(
            topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[data]
        )
        response = FetchResponse(responses=[topic])
        endpoint = leader_endpoint_for(replica, version - ENDPOINTS_FROM + 1, listener_name)
        if endpoint is not None:
            response.node_endpoints = [
                fetch.NodeEndpoint(node_id=replica.leader_id, host=endpoint[0], port=endpoint[1])
            ]
        return response

    # ---- waiting

    def wake(self, leader: Leader, now_ms: int) -> None:
        """Answer the fetches that have something to be told, or have waited long enough."""
        end_offset = self._replica.log.end_offset
        high_watermark = self._replica.high_watermark if leader.has_committed else -1
        for key, waiting in list(leader.waiting.items()):
            asked = waiting.request.topics[0].partitions[0]
            if (
                asked.fetch_offset < end_offset
                or asked.high_watermark < high_watermark
                or now_ms >= waiting.deadline_ms
            ) and leader.waiting.get(key) is waiting:
                del leader.waiting[key]
                data = self._read(leader, key, waiting.request, asked, now_ms)
                waiting.reply(self._answer(waiting.version, waiting.listener_name, data))

    def _finish(self, waiting: WaitingFetch) -> None:
        """Another request of the same replica came: nobody waits for this one any more."""
        data = PartitionData(log_start_offset=self._replica.log.start_offset, high_watermark=-1)
        waiting.reply(self._answer(waiting.version, waiting.listener_name, data))

    def stop(self, leader: Leader) -> None:
        """This replica leads no more."""
        waiting, leader.waiting = leader.waiting, {}
        for each in waiting.values():
            data = PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            each.reply(self._answer(each.version, each.listener_name, data))

    # ---- snapshots

    def handle_fetch_snapshot(
        self, version: int, request: FetchSnapshotRequest, now_ms: int, listener_name: str
    ) -> FetchSnapshotResponse:
        replica = self._replica
        if not is_our_cluster(replica, request.cluster_id):
            return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        asked: FetchSnapshotRequestPartitionSnapshot | None = only_partition(request.topics, "name")
        if asked is None:
            return _unknown_partitions(request)
        data = self._snapshot_part(request, asked, now_ms)
        data.current_leader = fetch_snapshot.LeaderIdAndEpoch(
            leader_id=replica.leader_id, leader_epoch=replica.epoch
        )
        topic = FetchSnapshotResponseTopicSnapshot(name=METADATA_TOPIC, partitions=[data])
        response = FetchSnapshotResponse(topics=[topic])
        endpoint = leader_endpoint_for(replica, version, listener_name)
        if endpoint is not None:
            response.node_endpoints = [
                fetch_snapshot.NodeEndpoint(
                    node_id=replica.leader_id, host=endpoint[0], port=endpoint[1]
                )
            ]
        return response

    def _snapshot_part(
        self,
        request: FetchSnapshotRequest,
        asked: FetchSnapshotRequestPartitionSnapshot,
        now_ms: int,
    ) -> FetchSnapshotResponsePartitionSnapshot:
        replica = self._replica
        data = FetchSnapshotResponsePartitionSnapshot(index=0, unaligned_records=b"")
        data.snapshot_id = asked.snapshot_id
        data.error_code = check_leader_request(replica, asked.current_leader_epoch)
        if data.error_code != NONE:
            return data
        wanted = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        size = replica.log.snapshot_size(wanted)
        if size is None:
            data.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
            return data
        if not 0 <= asked.position < size:
            data.error_code = ErrorCode.POSITION_OUT_OF_RANGE
            return data
        leader = replica.leader
        assert leader is not None
        if request.replica_id >= 0 and request.replica_id != replica.node_id:
            leader.seen(ReplicaKey(request.replica_id, asked.replica_directory_id), now_ms)
        max_bytes = min(max(request.max_bytes, 1), replica.settings.fetch_snapshot_max_bytes)
        data.size = size
        data.position = asked.position
        data.unaligned_records = replica.log.read_snapshot_part(wanted, asked.position, max_bytes)
        return data


def _replica_key(version: int, request: FetchRequest, asked: FetchPartition) -> ReplicaKey:
    if version >= REPLICA_STATE_FROM:
        return ReplicaKey(request.replica_state.replica_id, asked.replica_directory_id)
    return ReplicaKey(request.replica_id, asked.replica_directory_id)


def _unknown_partitions(request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(
        topics=[
            FetchSnapshotResponseTopicSnapshot(
                name=topic.name,
                partitions=[
                    FetchSnapshotResponsePartitionSnapshot(
                        index=each.partition,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        unaligned_records=b"",
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
