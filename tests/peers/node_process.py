"""The Node process that all tests of a run share: kafkajs (`tests/peers/node/peer.js`)."""

from __future__ import annotations

import atexit
import os
import shutil
from pathlib import Path

from tests.peers import apache
from tests.peers.json_process import JsonProcess

SCRIPT = Path(__file__).with_name("node") / "peer.js"
_shared: JsonProcess | None = None


def missing() -> str | None:
    """Why kafkajs cannot be used here, or None when it can."""
    if shutil.which("node") is None:
        return "no node on the PATH"
    if not (apache.PEERS / "node" / "node_modules" / "kafkajs").exists():
        return "kafkajs is not in .peers (scripts/fetch-peers fetches it)"
    return None


def shared() -> JsonProcess:
    """The process of this test run, started on first use."""
    global _shared
    if _shared is None or not _shared.running:
        os.environ["NODE_PATH"] = str(apache.PEERS / "node" / "node_modules")
        _shared = JsonProcess(["node", str(SCRIPT)], apache.PEERS / "node.log")
        atexit.register(_shared.close)
    return _shared
