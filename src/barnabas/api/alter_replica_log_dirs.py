"""AlterReplicaLogDirs (34): move replicas of this broker to other log directories of it (KIP-113).

The answer says whether a move has begun; DescribeLogDirs shows how far it is. A replica that this broker
does not have yet is refused, and made in that directory once it comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.ALTER_REPLICA_LOG_DIRS
VERSIONS = (1, 2)


def handle(
    node: Node, context: Context, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    # Whoever is named twice goes to the last directory.
    wanted = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), path in wanted.items():
        result = results.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name))
        result.partitions.append(
            AlterReplicaLogDirPartitionResult(
                partition_index=index, error_code=_move(node, name, index, path)
            )
        )
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(node: Node, topic: str, index: int, path: str) -> ErrorCode:
    try:
        node.replicas.alter_log_directory(topic, index, path)
    except ApiError as error:
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return ErrorCode.REPLICA_NOT_AVAILABLE  # as this API has always called it
        return error.code
    return ErrorCode.NONE
