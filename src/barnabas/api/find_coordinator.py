"""FindCoordinator (10): which broker coordinates a group.

The first question ever creates `__consumer_offsets`, and the answer waits for it, so that a
client's first group needs no second attempt. Transactions and share groups have no coordinator
here. A client that is told COORDINATOR_NOT_AVAILABLE asks again until it times out, so these are
refused with an error it cannot retry: INVALID_REQUEST for share groups, and for transactions
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, the only answer that ends `init_transactions` at once in
both Apache's clients and librdkafka. The message says what is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.coordinator.group.coordinator import OFFSETS_TOPIC
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.api.types import Context, Node

KEY = ApiKey.FIND_COORDINATOR
VERSIONS = (0, 6)

GROUP, TRANSACTION, SHARE = 0, 1, 2

_SEVERAL_KEYS_SINCE = 4
_NOT_SERVED = {
    TRANSACTION: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "This broker does not coordinate transactions yet.",
    ),
    SHARE: (ErrorCode.INVALID_REQUEST, "This broker does not coordinate share groups yet."),
}


def handle(
    node: Node, context: Context, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    refusal = _refusal(request)
    if refusal is not None:
        return _response(request, context.api_version, [refusal] * len(_keys(request, context)))
    if OFFSETS_TOPIC not in node.metadata.image.topics:
        return _create_then_find(node, context, request)
    return _find(node, context, request)


def _keys(request: FindCoordinatorRequest, context: Context) -> list[str]:
    if context.api_version >= _SEVERAL_KEYS_SINCE:
        return request.coordinator_keys
    return [request.key]


def _refusal(request: FindCoordinatorRequest) -> Coordinator | None:
    if request.key_type == GROUP:
        return None
    return _failed(*_NOT_SERVED.get(request.key_type, (ErrorCode.INVALID_REQUEST, None)))


def _failed(code: ErrorCode, message: str | None = None) -> Coordinator:
    return Coordinator(
        node_id=-1, host="", port=-1, error_code=code, error_message=message or code.message
    )


async def _create_then_find(
    node: Node, context: Context, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    code = await node.create_offsets_topic()
    if code != ErrorCode.NONE:
        failed = _failed(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"The topic {OFFSETS_TOPIC} cannot be created: {code.name}",
        )
        return _response(request, context.api_version, [failed] * len(_keys(request, context)))
    return _find(node, context, request)


def _find(node: Node, context: Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    return _response(
        request,
        context.api_version,
        [_coordinator_of(node, context, key) for key in _keys(request, context)],
    )


def _coordinator_of(node: Node, context: Context, group_id: str) -> Coordinator:
    metadata = node.metadata
    partition = metadata.image.partition(OFFSETS_TOPIC, node.groups.partition_for(group_id))
    if partition is None or partition.leader not in metadata.alive_brokers():
        return _failed(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    found = metadata.endpoint(partition.leader, context)
    if found is None:
        return _failed(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(node_id=found.node_id, host=found.host, port=found.port)


def _response(
    request: FindCoordinatorRequest, version: int, found: list[Coordinator]
) -> FindCoordinatorResponse:
    if version < _SEVERAL_KEYS_SINCE:
        (one,) = found
        message = one.error_message if one.error_code else ErrorCode.NONE.name
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(
                key=key,
                node_id=one.node_id,
                host=one.host,
                port=one.port,
                error_code=one.error_code,
                error_message=one.error_message,
            )
            for key, one in zip(request.coordinator_keys, found, strict=True)
        ]
    )


def error_response(
    request: FindCoordinatorRequest, code: ErrorCode, version: int
) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if version >= _SEVERAL_KEYS_SINCE else [request.key]
    return _response(request, version, [_failed(code)] * len(keys))
