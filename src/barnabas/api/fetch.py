"""Fetch (1): read record batches, waiting for them if need be.

The record bytes never pass through Python: a partition's records are a range of a segment file that the
connection hands to sendfile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api import DEFERRED, Answer
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node
    from barnabas.replica.fetch import Results
    from barnabas.replica.fetch_session import FetchSession, FetchTarget

KEY = ApiKey.FETCH
VERSIONS = (4, 18)

_RACK_SINCE = 11
_CURRENT_LEADER_SINCE = 12
_ENDPOINTS_SINCE = 16
_LEADER_ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(node: Node, context: Context, request: FetchRequest) -> Answer:
    replicas = node.replicas
    try:
        session, targets, incremental = node.fetch_sessions.open(
            request, context.api_version, replicas, node.clock.now_ms()
        )
    except ApiError as error:
        return FetchResponse(error_code=error.code)
    max_bytes = node.config.fetch_max_bytes

    def done(results: Results) -> None:
        context.respond(_answer(node, context, session, incremental, results))

    replica_id = max(request.replica_id, request.replica_state.replica_id)
    if replica_id >= 0:
        results = replicas.follower_fetch(
            targets,
            replica_id=replica_id,
            replica_epoch=request.replica_state.replica_epoch,
            now_ms=node.clock.now_ms(),
            max_wait_ms=request.max_wait_ms,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
            done=done,
        )
    else:
        results = replicas.fetch(
            targets,
            max_wait_ms=request.max_wait_ms,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes if request.max_bytes < max_bytes else max_bytes,
            isolation_level=request.isolation_level,
            client_rack=request.rack_id if context.api_version >= _RACK_SINCE else None,
            done=done,
        )
    if results is None:
        return DEFERRED
    return _answer(node, context, session, incremental, results)


def _answer(
    node: Node,
    context: Context,
    session: FetchSession | None,
    incremental: bool,
    results: Results,
) -> FetchResponse:
    response = FetchResponse()
    if session is not None:
        response.session_id = session.session_id
        results = _for_session(session, incremental, results)
    topics = response.responses
    current: FetchableTopicResponse | None = None
    last: tuple[str | None, bytes] | None = None
    for target, data in results:
        identity = (target.topic, target.topic_id)
        if current is None or identity != last:
            current = FetchableTopicResponse(
                topic=target.topic or "", topic_id=target.topic_id, partitions=[]
            )
            last = identity
            topics.append(current)
        current.partitions.append(data)
        if data.error_code in _LEADER_ELSEWHERE:
            if context.api_version >= _ENDPOINTS_SINCE:
                _add_endpoint(node, context, response, data)
            elif context.api_version < _CURRENT_LEADER_SINCE:
                data.current_leader = LeaderIdAndEpoch()
    return response


def _for_session(session: FetchSession, incremental: bool, results: Results) -> Results:
    told: Results = []
    served: list[FetchTarget] = []
    for target, data in results:
        if target.has_news(data) or not incremental:
            told.append((target, data))
        if data.records:
            served.append(target)
    if incremental and len(session.targets) > 1:
        session.rotate(served)
    return told


def _add_endpoint(
    node: Node, context: Context, response: FetchResponse, data: PartitionData
) -> None:
    """Name the leader, so that the peer need not ask for metadata (KIP-951)."""
    leader_id = data.current_leader.leader_id
    if leader_id < 0 or any(known.node_id == leader_id for known in response.node_endpoints):
        return
    endpoint = node.metadata.endpoint(leader_id, context)
    if endpoint is not None:
        response.node_endpoints.append(
            NodeEndpoint(
                node_id=leader_id, host=endpoint.host, port=endpoint.port, rack=endpoint.rack
            )
        )


def error_response(request: FetchRequest, code: ErrorCode, version: int) -> FetchResponse:
    return FetchResponse(
        error_code=code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=partition.partition,
                        error_code=code,
                        high_watermark=-1,
                        records=b"",
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
