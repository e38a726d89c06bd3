"""AlterPartition (56): a leader proposes who is in sync with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, ControllerNode

KEY = ApiKey.ALTER_PARTITION
VERSIONS = (2, 3)


async def handle(
    node: ControllerNode, context: Context, request: AlterPartitionRequest
) -> AlterPartitionResponse:
    return await node.controller.alter_partition(request)


def error_response(
    request: AlterPartitionRequest, code: ErrorCode, version: int
) -> AlterPartitionResponse:
    return AlterPartitionResponse(error_code=code)
