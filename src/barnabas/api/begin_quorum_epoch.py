"""BeginQuorumEpoch (53): a leader tells that its epoch has begun.

Served by controllers; the quorum's own state machine answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest

if TYPE_CHECKING:
    from barnabas.api.types import Context, ControllerNode

KEY = ApiKey.BEGIN_QUORUM_EPOCH
VERSIONS = (0, 1)


def handle(node: ControllerNode, context: Context, request: BeginQuorumEpochRequest) -> object:
    return node.handle_quorum_request(KEY, context, request)
