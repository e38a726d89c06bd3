"""`barnabas up` as a process of its own, as a person starts it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli.conftest import environment

STOP_TIMEOUT_S = 30.0


@dataclass
class Served:
    bootstrap: str
    process: subprocess.Popen[str]
    first_lines: list[str]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal; exit code and what else was printed."""
        self.process.send_signal(number)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        out, err = self.process.stdout.read(), self.process.stderr.read()
        return self.process.wait(STOP_TIMEOUT_S), out, err


@contextmanager
def serve(directory: Path, *args: str) -> Iterator[Served]:
    """A broker on a free port that ran in `directory` until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas.cli.main", *(args or ("up", "--port", "0"))],
        cwd=directory,
        env=environment(None),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            found = re.search(r"bootstrap=(\S+)", line)
            if found:
                yield Served(found[1], process, lines)
                break
        else:
            assert process.stderr is not None
            raise AssertionError(f"it did not start: {process.stderr.read()}")
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
