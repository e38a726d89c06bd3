"""One JVM that serves many requests: Apache's tools and Java clients without a start for each.

The JVM runs `PeerServer` (tests/peers/java). A request is one JSON line on its standard input and
the answer one JSON line on its standard output. The process lives until the tests end.
"""

from __future__ import annotations

import atexit
import json
import queue
import subprocess
import threading
from typing import IO, Any

from tests.peers import apache

ANSWER_TIMEOUT_S = 90.0


class PeerError(Exception):
    """A Java client threw: `kind` is the exception's simple class name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class Jvm:
    """A `PeerServer` process; calls are answered one at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.log = (apache.PEERS / "jvm.log").open("ab")
        self.process = subprocess.Popen(
            apache.java_command("PeerServer", [], log_level="WARN"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
        )
        self.answers: queue.Queue[bytes] = queue.Queue()
        assert self.process.stdout is not None
        reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        reader.start()

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            self.answers.put(line)
        self.answers.put(b"")

    def call(self, operation: str, timeout_s: float = ANSWER_TIMEOUT_S, **fields: Any) -> Any:
        """Runs one operation of `PeerServer`; a Java exception becomes `PeerError`."""
        with self.lock:
            assert self.process.stdin is not None
            request = json.dumps({"op": operation, **fields})
            self.process.stdin.write(request.encode() + b"\n")
            self.process.stdin.flush()
            try:
                line = self.answers.get(timeout=timeout_s)
            except queue.Empty:
                self.close()
                raise TimeoutError(f"{operation} took longer than {timeout_s} s") from None
        if not line:
            raise RuntimeError(f"the JVM ended during {operation}; see {self.log.name!r}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"], answer["message"])
        return answer["result"]

    def tool(self, name: str, args: list[str], stdin: str, timeout_s: float) -> apache.ToolResult:
        result = self.call("tool", timeout_s, name=name, args=args, stdin=stdin)
        return apache.ToolResult(result["code"], result["stdout"], result["stderr"])

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


_shared: Jvm | None = None


def shared() -> Jvm:
    """The JVM of this test run, started on first use."""
    global _shared
    if _shared is None or _shared.process.poll() is not None:
        _shared = Jvm()
        atexit.register(_shared.close)
    return _shared
