"""The `barnabas` command: `barnabas NOUN VERB`.

Nouns load lazily, so `--help` stays fast. This file also owns the border to the shell: exceptions
become one line on standard error and a documented exit code, Ctrl-C ends quietly with 130, and a
reader that goes away (`| head`) is no error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from barnabas.cli import exits
from barnabas.cli.lazy import Entry, LazyGroup

COMMANDS = {
    "up": Entry("barnabas.cli.up:up", "Start a broker here and now; no setup needed."),
    "server": Entry("barnabas.cli.server:server", "Start a broker from a server.properties file."),
    "storage": Entry("barnabas.cli.storage:storage", "Format a data directory, look at one."),
    "topic": Entry("barnabas.cli.topic:topic", "Create, list, describe, alter, delete topics."),
    "produce": Entry("barnabas.cli.produce:produce", "Write records to a topic."),
    "consume": Entry("barnabas.cli.consume:consume", "Read records of topics."),
    "group": Entry("barnabas.cli.group:group", "Consumer groups: lag, reset, delete."),
    "config": Entry("barnabas.cli.config:config", "Settings of topics, brokers and groups."),
    "broker": Entry("barnabas.cli.broker:broker", "The brokers and what they can do."),
    "cluster": Entry("barnabas.cli.cluster:cluster", "Health, endpoints, brokers that are gone."),
    "quorum": Entry("barnabas.cli.quorum:quorum", "The controllers: describe, add, remove."),
    "features": Entry("barnabas.cli.features:features", "Feature levels: describe, change."),
    "metadata": Entry("barnabas.cli.metadata:metadata", "Browse the cluster's metadata."),
    "log": Entry("barnabas.cli.log:log", "Look into log files, indexes and snapshots."),
    "pipeline": Entry("barnabas.cli.pipeline:pipeline", "The data pipeline on Spark."),
    "perf": Entry("barnabas.cli.perf:perf", "Measure throughput and latency."),
    "completion": Entry("barnabas.cli.completion:completion", "Completion for bash, zsh or fish."),
}

EPILOG = """\
\b
Examples:
  barnabas up
  barnabas topic create orders --partitions 3
  echo hello | barnabas produce orders
  barnabas consume orders -o start -e

\b
The broker is localhost:9092 unless -b, --bootstrap-server or the variable
BARNABAS_BOOTSTRAP_SERVERS says otherwise.

\b
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found,
            4 timeout or unreachable, 130 Ctrl-C.
"""


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        text = version("barnabas")
    except PackageNotFoundError:
        text = "unknown"
    click.echo(f"barnabas {text}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    entries=COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version.",
)
def barnabas() -> None:
    """Apache Kafka's system in Python: a broker, its clients and its tools."""


def run(args: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code."""
    return guard(lambda: barnabas.main(args=args, prog_name="barnabas", standalone_mode=False))


def guard(command: object) -> int:
    """Call `command`, turning whatever it raises into a message and an exit code."""
    assert callable(command)
    try:
        result = command()
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show(sys.stdout)
        return exits.OK
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return exits.INTERRUPTED
    except BrokenPipeError:
        _drop_standard_output()
        return exits.OK
    except Exception as error:
        code = exits.code_for(error)
        if code is None or os.environ.get("BARNABAS_TRACEBACK"):
            raise
        complain(exits.describe(error))
        return code
    return result if isinstance(result, int) else exits.OK


def complain(message: str) -> None:
    """An error message, red where that can be seen."""
    label = click.style("error:", fg="red", bold=True) if colours(sys.stderr) else "error:"
    print(f"{label} {message}", file=sys.stderr)


def colours(stream: object) -> bool:
    """Whether a stream is a terminal that wants colours (NO_COLOR says no)."""
    isatty = getattr(stream, "isatty", None)
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return bool(wanted and isatty is not None and isatty())


def _drop_standard_output() -> None:
    """Whoever read it is gone; Python must not fail again when it flushes at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def main() -> None:
    sys.exit(run())


if __name__ == "__main__":
    main()
