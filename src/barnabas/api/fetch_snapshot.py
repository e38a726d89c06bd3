"""FetchSnapshot (59): a part of a snapshot, for a replica that is too far behind the log.

Served by controllers; the quorum's own state machine answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotRequest

if TYPE_CHECKING:
    from barnabas.api.types import Context, ControllerNode

KEY = ApiKey.FETCH_SNAPSHOT
VERSIONS = (0, 1)


def handle(node: ControllerNode, context: Context, request: FetchSnapshotRequest) -> object:
    return node.handle_quorum_request(KEY, context, request)
