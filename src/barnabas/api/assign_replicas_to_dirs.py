"""AssignReplicasToDirs (73): a broker tells in which directory its replicas are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, ControllerNode

KEY = ApiKey.ASSIGN_REPLICAS_TO_DIRS
VERSIONS = (0, 0)


async def handle(
    node: ControllerNode, context: Context, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    return await node.controller.assign_replicas_to_dirs(request)


def error_response(
    request: AssignReplicasToDirsRequest, code: ErrorCode, version: int
) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(error_code=code)
