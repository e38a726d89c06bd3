"""`barnabas metadata shell`: browse the metadata of a cluster, a log directory or a snapshot file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli import exits
from barnabas.cli.connect import Connect, node_options
from barnabas.cli.output import Output, cell, format_option

if TYPE_CHECKING:
    from barnabas.cli.metadata_shell import Shell
    from barnabas.cli.metadata_tree import Leaf

HISTORY_LINES = 1_000


@click.group()
def metadata() -> None:
    """Browse the cluster's metadata."""


@metadata.command(
    context_settings={"ignore_unknown_options": True},
    epilog="\b\nExamples:\n  barnabas metadata shell\n"
    "  barnabas metadata shell ls /image/topics/byName\n"
    "  barnabas metadata shell cat /image/topics/byName/orders/0 --format json\n"
    "  barnabas metadata shell -s data/__cluster_metadata-0 tree /image/features\n\n"
    "\b\nWithout COMMAND it reads commands: ls, cd, cat, find, tree, pwd, history, help, exit.",
)
@click.argument("command", nargs=-1)
@click.option(
    "-s",
    "--snapshot",
    "path",
    type=click.Path(path_type=Path),
    help="A .checkpoint or .log file, or a log directory; no cluster is asked.",
)
@node_options
@format_option
def shell(command: tuple[str, ...], path: Path | None, connect: Connect, out: Output) -> int:
    """Look at the metadata as at a tree of files."""
    from importlib.metadata import version

    from barnabas.cli import metadata_source
    from barnabas.cli.metadata_shell import Shell
    from barnabas.cli.metadata_tree import build

    if path is not None:
        loaded = metadata_source.load_path(path)
    else:
        with connect.admin() as admin:
            loaded = metadata_source.load_cluster(admin)
    found = Shell(build(loaded, version("barnabas")), _renderer(out))
    if command:
        for line in found.run(command):
            print(line)
        return exits.NOT_FOUND if found.failed else exits.OK
    if sys.stdin.isatty():
        return _interactive(found, loaded.source, loaded.image.offset)
    return _read(found, sys.stdin)


def _renderer(out: Output) -> Any:
    def render(leaf: Leaf) -> str:
        if out.format == "json":
            return json.dumps(leaf.data, indent=2, ensure_ascii=False)
        if out.format == "yaml":
            from barnabas.cli import yaml_text

            return yaml_text.dump(leaf.data).rstrip("\n")
        if isinstance(leaf.data, dict):
            width = max(map(len, leaf.data))
            return "\n".join(f"{n:<{width}}  {cell(v)}" for n, v in leaf.data.items())
        return leaf.text

    return render


def _read(found: Shell, stream: Any) -> int:
    """Commands from a pipe."""
    from barnabas.cli.metadata_shell import Exit

    failed = False
    try:
        for text in stream:
            for line in found.line(text):
                print(line)
            failed |= found.failed
    except Exit:
        pass
    return exits.NOT_FOUND if failed else exits.OK


def history_file() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "barnabas" / "metadata_history"


def _interactive(found: Shell, source: str, offset: int) -> int:
    from barnabas.cli.metadata_shell import Exit

    keep = _use_readline(found)
    print(f"metadata from {source}, offset {offset}; 'help' names the commands, 'exit' leaves")
    try:
        while True:
            try:
                text = input(f"/{'/'.join(found.here)}> ")
            except KeyboardInterrupt:
                print()
                continue
            for line in found.line(text):
                print(line)
    except EOFError:
        print()
    except Exit:
        pass
    finally:
        keep()
    return exits.OK


def _use_readline(found: Shell) -> Any:
    """History and completion where the platform has readline; what to call at the end."""
    try:
        import readline
    except ImportError:
        return lambda: None
    path = history_file()
    try:
        readline.read_history_file(path)
    except OSError:
        pass
    readline.set_completer_delims(" ")
    options: list[str] = []

    def complete(word: str, state: int) -> str | None:
        if state == 0:
            options[:] = found.complete(readline.get_line_buffer(), word)
        return options[state] if state < len(options) else None

    readline.set_completer(complete)
    editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if editline else "tab: complete")

    def keep() -> None:
        readline.set_completer(None)
        readline.set_history_length(HISTORY_LINES)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)
        except OSError:
            pass

    return keep
