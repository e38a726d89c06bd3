"""Vote (52): a candidate, or one that would be, asks for this node's vote.

Served by controllers; the quorum's own state machine answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.vote import VoteRequest

if TYPE_CHECKING:
    from barnabas.api.types import Context, ControllerNode

KEY = ApiKey.VOTE
VERSIONS = (0, 2)


def handle(node: ControllerNode, context: Context, request: VoteRequest) -> object:
    return node.handle_quorum_request(KEY, context, request)
