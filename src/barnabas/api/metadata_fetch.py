"""Fetch (1) on a controller listener: replicas of the metadata log pull it from the quorum's leader.

The quorum's state machine answers; a request waits there for records, at most as long as it says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from barnabas.api.types import Context, ControllerNode

KEY = ApiKey.FETCH
VERSIONS = (4, 18)


def handle(node: ControllerNode, context: Context, request: FetchRequest) -> object:
    return node.handle_quorum_request(KEY, context, request)
