"""InitProducerId (22): an identity for an idempotent producer.

Ids come in blocks of a thousand from the controller, so that most requests are answered from memory and
no id is ever given twice, even after a crash. A request with a transactional id belongs to the
transaction coordinator, which this broker does not have yet; it is refused for good, so that a client
stops with an error instead of trying again forever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.api.types import Context, Node

KEY = ApiKey.INIT_PRODUCER_ID
VERSIONS = (0, 6)
# Version 6 (two-phase commit) is unstable and shown only on request.
STABLE_VERSIONS = (0, 5)


def handle(
    node: Node, context: Context, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if request.transactional_id is not None:
        if request.transactional_id == "":
            return _refused(ErrorCode.INVALID_REQUEST)
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return _refused(ErrorCode.INVALID_REQUEST)
    producer_id = node.producer_ids.next_id()
    if producer_id is not None:
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    return _wait_for_block(node)


async def _wait_for_block(node: Node) -> InitProducerIdResponse:
    producer_id = await node.producer_ids.next_id_after_allocation()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def error_response(
    request: InitProducerIdRequest, code: ErrorCode, version: int
) -> InitProducerIdResponse:
    return _refused(code)
