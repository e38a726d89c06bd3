"""AddRaftVoter (80): a controller joins the voters of the quorum.

A broker passes it on to the leader of the quorum; a controller's quorum answers by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

if TYPE_CHECKING:
    from barnabas.api.types import Context, QuorumNode

KEY = ApiKey.ADD_RAFT_VOTER
VERSIONS = (0, 1)


def handle(node: QuorumNode, context: Context, request: AddRaftVoterRequest) -> object:
    return node.handle_quorum_request(KEY, context, request)


def error_response(
    request: AddRaftVoterRequest, code: ErrorCode, version: int
) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(error_code=code, error_message=code.message)
