"""A peer in another language, kept running: one JSON line in, one JSON line out.

Both `PeerServer` (Java) and `peer.js` (Node) speak this. Starting a runtime costs more than most
operations, so a test run starts each once and it lives until the tests end.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

ANSWER_TIMEOUT_S = 90.0


class PeerError(Exception):
    """The peer's client threw: `kind` is the exception's class name over there."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class JsonProcess:
    """The running peer; calls are answered one at a time."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.lock = threading.Lock()
        self.log_path = log
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
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
        """Runs one operation; an exception over there becomes `PeerError` here."""
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
            raise RuntimeError(f"the peer ended during {operation}; see {self.log_path}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"], answer["message"])
        return answer["result"]

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        if self.running:
            self.process.kill()
            self.process.wait()
