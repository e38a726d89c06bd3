"""ElectLeaders (43): preferred or unclean elections, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.ELECT_LEADERS
VERSIONS = (0, 2)

_ERROR_CODE_SINCE = 1


async def handle(
    node: Node, context: Context, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    return await node.controller.elect_leaders(request)


def error_response(
    request: ElectLeadersRequest, code: ErrorCode, version: int
) -> ElectLeadersResponse:
    # Version 0 has no code for the whole.
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=code, error_message=code.message)
                for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(
        error_code=code if version >= _ERROR_CODE_SINCE else 0,
        replica_election_results=results,
    )
