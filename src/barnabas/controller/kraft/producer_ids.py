"""Producer ids, given to brokers in blocks.

A block is written to the metadata log before it is given, so that no id is ever given twice; what a
broker does not use of a block is lost when it stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.controller.kraft.decision import Decision
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.wire.records.metadata import ProducerIdsRecord

if TYPE_CHECKING:
    from barnabas.controller.kraft.decision import View

BLOCK_SIZE: Final = 1000
_LAST_ID: Final = 2**63 - 1


def allocate_producer_ids(
    view: View, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    broker = view.registered(request.broker_id, request.broker_epoch)
    first = view.image.producer_ids.next_producer_id
    if first > _LAST_ID - BLOCK_SIZE:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 "
            "type limit",
        )
    record = ProducerIdsRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        next_producer_id=first + BLOCK_SIZE,
    )
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE)
    return Decision([record], response)
