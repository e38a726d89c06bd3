"""DescribeQuorum (55): leader, epoch, voters and observers of the metadata log (KIP-595)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from barnabas.wire.uuids import ZERO

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.DESCRIBE_QUORUM
VERSIONS = (0, 2)

_NODES_SINCE = 2


async def handle(
    node: Node, context: Context, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    response = await node.describe_quorum(request)
    if context.api_version < _NODES_SINCE:
        response.nodes = []
        for topic in response.topics:
            for partition in topic.partitions:
                for replica in (*partition.current_voters, *partition.observers):
                    replica.replica_directory_id = ZERO
    return response


def error_response(
    request: DescribeQuorumRequest, code: ErrorCode, version: int
) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=code, error_message=code.message)
