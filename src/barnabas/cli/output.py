"""What commands print: a table for people, JSON or YAML for programs, from the same rows.

A verb gives `Output` plain data (dicts, lists, numbers, strings) and says which columns a person
wants to see. On a terminal the table is coloured and fits the width; in a pipe it is aligned text
without colours. JSON and YAML hold all of the data, not only the columns.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

FORMATS = ("text", "json", "yaml")

Row = Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


class Output:
    def __init__(self, format_name: str = "text") -> None:
        self.format = format_name

    @property
    def is_text(self) -> bool:
        return self.format == "text"

    def data(self, value: Any) -> None:
        """For programs; says nothing in text form."""
        if self.format == "json":
            print(json.dumps(value, indent=2, ensure_ascii=False))
        elif self.format == "yaml":
            from barnabas.cli import yaml_text

            sys.stdout.write(yaml_text.dump(value))

    def line(self, text: str = "") -> None:
        """For people; says nothing in the other forms."""
        if self.is_text:
            print(text)

    def table(
        self,
        rows: Sequence[Row],
        columns: Sequence[str] | None = None,
        *,
        data: Any = None,
        empty: str | None = None,
        title: str | None = None,
    ) -> None:
        """Rows under headings. `data` is what programs get, the rows themselves by default."""
        if not self.is_text:
            self.data([dict(row) for row in rows] if data is None else data)
            return
        if not rows:
            if empty is not None:
                print(empty, file=sys.stderr)
            return
        self.show(rows, columns, title=title)

    def show(
        self, rows: Sequence[Row], columns: Sequence[str] | None = None, *, title: str | None = None
    ) -> None:
        """The table alone, in text form only."""
        if not self.is_text or not rows:
            return
        names = list(rows[0]) if columns is None else list(columns)
        cells = [[cell(row.get(name)) for name in names] for row in rows]
        numeric = [
            all(isinstance(row.get(n), (int, float)) or row.get(n) is None for row in rows)
            and any(is_number(row.get(n)) for row in rows)
            for n in names
        ]
        headings = [name.replace("_", " ").upper() for name in names]
        from barnabas.cli.main import colours

        if colours(sys.stdout):
            _rich_table(headings, cells, numeric, title)
            return
        if title:
            print(title)
        for line in aligned([headings, *cells], numeric):
            print(line)

    def properties(self, values: Row, *, data: Any = None) -> None:
        """One thing: a name and a value on each line."""
        if not self.is_text:
            self.data(dict(values) if data is None else data)
            return
        from barnabas.cli.main import colours

        bold = colours(sys.stdout)
        width = max((len(name) for name in values), default=0)
        for name, value in values.items():
            label = name.replace("_", " ").ljust(width)
            print(f"{click.style(label, bold=True) if bold else label}  {cell(value)}".rstrip())


def aligned(rows: Iterable[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """Columns two blanks apart; numbers end under each other."""
    table = [list(row) for row in rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(right))]
    return [
        "  ".join(
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in table
    ]


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def cell(value: Any) -> str:
    """How a value looks in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, (list, tuple)):
        return ",".join(cell(item) for item in value) or "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}={cell(v)}" for k, v in value.items()) or "-"
    return str(value)


def _rich_table(
    headings: list[str], cells: list[list[str]], numeric: list[bool], title: str | None
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=SIMPLE_HEAD,
        show_edge=False,
        header_style="bold cyan",
        title=title,
        title_justify="left",
        pad_edge=False,
    )
    for heading, is_number in zip(headings, numeric, strict=True):
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(text) for text in row))
    Console(highlight=False).print(table)


def format_option(command: F) -> F:
    """`--format`; the command gets it as `out`, an Output."""

    def convert(_ctx: click.Context, _param: click.Parameter, value: str) -> Output:
        return Output(value)

    return click.option(
        "--format",
        "out",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        callback=convert,
        help="Form of the output.",
    )(command)
