"""DescribeProducers (61): the producers a partition remembers (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api.repeats import check_repeats
from barnabas.controller.topic_names import topic_name_error
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.DESCRIBE_PRODUCERS
VERSIONS = (0, 0)


def handle(
    node: Node, context: Context, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    check_repeats(
        [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    )
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _describe(node, topic.name, index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(node: Node, topic: str, index: int) -> PartitionResponse:
    answer = PartitionResponse(partition_index=index)
    try:
        problem = topic_name_error(topic)
        if problem is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        log = node.replicas.partition(topic, index).leader_log()
        answer.active_producers = [
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_txn_first_offset,
            )
            for producer in log.active_producers()
        ]
    except ApiError as error:
        answer.error_code = error.code
        answer.error_message = error.message or error.code.message
    return answer


def error_response(
    request: DescribeProducersRequest, code: ErrorCode, version: int
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(partition_index=index, error_code=code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )
