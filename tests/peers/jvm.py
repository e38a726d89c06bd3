"""The JVM that all tests of a run share: Apache's tools and the Java clients (`PeerServer`)."""

from __future__ import annotations

import atexit
from typing import Any

from tests.peers import apache
from tests.peers.json_process import JsonProcess


class Jvm(JsonProcess):
    """A `PeerServer` process."""

    def __init__(self) -> None:
        super().__init__(apache.java_command("PeerServer", []), apache.PEERS / "jvm.log")

    def tool(self, name: str, args: list[str], stdin: str, timeout_s: float) -> apache.ToolResult:
        result = self.call("tool", timeout_s, name=name, args=args, stdin=stdin)
        return apache.ToolResult(result["code"], result["stdout"], result["stderr"])

    def admin(self, bootstrap: str, call: str, **fields: Any) -> Any:
        """One call of the Java admin client; the client of an address is kept."""
        request: dict[str, Any] = {"bootstrap": bootstrap, "call": call, "in": fields}
        return self.call("admin", **request)


_shared: Jvm | None = None


def missing() -> str | None:
    """Why the Java clients cannot be used here, or None when they can."""
    if (reason := apache.missing()) is not None:
        return reason
    if not (apache.PEERS / "java" / ".complete").exists():
        return "the Java test client is not compiled (scripts/fetch-peers does it)"
    return None


def shared() -> Jvm:
    """The JVM of this test run, started on first use."""
    global _shared
    if _shared is None or not _shared.running:
        _shared = Jvm()
        atexit.register(_shared.close)
    return _shared
