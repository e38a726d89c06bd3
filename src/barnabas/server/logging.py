"""Log lines for people: one line each on standard error, coloured on a terminal.

    2026-03-01 12:00:00,123 WARNING barnabas.peers: Closing the connection of 10.0.0.7:51234 ...

The level comes from the caller, else from the environment variable `BARNABAS_LOG_LEVEL`, else it is
INFO. `NO_COLOR` switches colours off. Line breaks and control characters within a message are shown
escaped, so that no peer can forge a line; tracebacks keep theirs.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import TextIO

LEVEL_VARIABLE = "BARNABAS_LOG_LEVEL"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_COLOURS = {
    logging.DEBUG: "\033[2m",
    logging.WARNING: "\033[33m",
    logging.ERROR: "\033[31m",
    logging.CRITICAL: "\033[1;31m",
}
_RESET = "\033[0m"
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0))} | {
    0x0A: "\\n",
    0x0D: "\\r",
    0x09: "\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


class LineFormatter(logging.Formatter):
    def __init__(self, *, colour: bool) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._colour = colour

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = record.message.translate(_CONTROL)
        line = super().formatMessage(record)
        colour = _COLOURS.get(record.levelno) if self._colour else None
        return line if colour is None else f"{colour}{line}{_RESET}"


def level_number(name: str) -> int:
    """Raises ValueError for what is no level."""
    upper = name.strip().upper()
    if upper not in LEVELS:
        raise ValueError(f"{name!r} is no log level; use one of {', '.join(LEVELS)}")
    return int(getattr(logging, upper))


def set_up_logging(
    level: str | None = None,
    *,
    stream: TextIO | None = None,
    environment: Mapping[str, str] | None = None,
) -> logging.Handler:
    """Log everything of `barnabas` to `stream`. Calling it again replaces the former set-up."""
    environment = os.environ if environment is None else environment
    stream = sys.stderr if stream is None else stream
    number = level_number(level or environment.get(LEVEL_VARIABLE) or "INFO")
    colour = stream.isatty() and not environment.get("NO_COLOR")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter(colour=colour))
    root = logging.getLogger("barnabas")
    for former in tuple(root.handlers):
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(number)
    root.propagate = False
    return handler
