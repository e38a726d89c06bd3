"""kafka-server-start.sh: `[-daemon] server.properties [--override property=value]*`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from barnabas.cli.apache import arguments


def parser() -> arguments.Arguments:
    found = arguments.Arguments("kafka-server-start.sh", "Start a broker.")
    found.add_argument("-daemon", action="store_true", help="Run in the background.")
    found.add_argument("-name", help="Only for compatibility.")
    found.add_argument("-loggc", action="store_true", help="Only for compatibility.")
    found.add_argument("file", metavar="server.properties")
    found.values("--override", help="Optional property that should override the file's.")
    return found


def command(args: Sequence[str]) -> int:
    from barnabas.cli.server import start_from_file

    given = parser().parse_args(args)
    overrides = arguments.properties(given.override)
    with open(given.file, encoding="utf-8"):
        pass
    if given.daemon:
        _into_background()
    start_from_file(given.file, overrides)
    return 0


def _into_background() -> None:
    """Detach from the terminal; the output goes to kafkaServer.out under LOG_DIR or here."""
    log_path = os.path.join(os.environ.get("LOG_DIR", "."), "kafkaServer.out")
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    if os.fork():
        os._exit(0)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def main() -> None:
    arguments.run(command)


if __name__ == "__main__":
    main()
