"""DescribeLogDirs (35): the log directories of this broker and what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.DESCRIBE_LOG_DIRS
VERSIONS = (1, 5)


def handle(
    node: Node, context: Context, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    asked: set[tuple[str, int]] | None = None
    if request.topics is not None:
        asked = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    response = DescribeLogDirsResponse()
    for directory in node.logs.describe():
        topics: dict[str, list[DescribeLogDirsPartition]] = {}
        for partition in directory.partitions:
            if asked is None or (partition.topic, partition.index) in asked:
                topics.setdefault(partition.topic, []).append(
                    DescribeLogDirsPartition(
                        partition_index=partition.index,
                        partition_size=partition.size,
                        offset_lag=partition.offset_lag,
                        is_future_key=partition.is_future,
                    )
                )
        response.results.append(
            DescribeLogDirsResult(
                error_code=0 if directory.is_online else ErrorCode.KAFKA_STORAGE_ERROR,
                log_dir=directory.path,
                topics=[
                    DescribeLogDirsTopic(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
                total_bytes=directory.total_bytes,
                usable_bytes=directory.usable_bytes,
            )
        )
    return response
