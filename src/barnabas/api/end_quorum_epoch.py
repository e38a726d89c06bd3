"""EndQuorumEpoch (54): a leader tells that it leads no more, and who may follow it.

Served by controllers; the quorum's own state machine answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.end_quorum_epoch import EndQuorumEpochRequest

if TYPE_CHECKING:
    from barnabas.api.types import Context, ControllerNode

KEY = ApiKey.END_QUORUM_EPOCH
VERSIONS = (0, 1)


def handle(node: ControllerNode, context: Context, request: EndQuorumEpochRequest) -> object:
    return node.handle_quorum_request(KEY, context, request)
