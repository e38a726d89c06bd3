"""RemoveRaftVoter (81): a controller leaves the voters of the quorum.

A broker passes it on to the leader of the quorum; a controller's quorum answers by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

if TYPE_CHECKING:
    from barnabas.api.types import Context, QuorumNode

KEY = ApiKey.REMOVE_RAFT_VOTER
VERSIONS = (0, 0)


def handle(node: QuorumNode, context: Context, request: RemoveRaftVoterRequest) -> object:
    return node.handle_quorum_request(KEY, context, request)


def error_response(
    request: RemoveRaftVoterRequest, code: ErrorCode, version: int
) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(error_code=code, error_message=code.message)
