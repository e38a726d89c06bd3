"""UpdateRaftVoter (82): a voter tells the leader where it is and what it supports.

Served by controllers; the quorum's own state machine answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.update_raft_voter import UpdateRaftVoterRequest

if TYPE_CHECKING:
    from barnabas.api.types import Context, ControllerNode

KEY = ApiKey.UPDATE_RAFT_VOTER
VERSIONS = (0, 0)


def handle(node: ControllerNode, context: Context, request: UpdateRaftVoterRequest) -> object:
    return node.handle_quorum_request(KEY, context, request)
