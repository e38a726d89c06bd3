"""The parts of docs/clients.md that are made from the code: tables of options and of exceptions.

`python -m barnabas.client.manual docs/clients.md` writes them anew, each between its two markers; a
test says when somebody has to.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from barnabas.client import errors, options
from barnabas.client.no_effect import NO_EFFECT
from barnabas.client.security_options import SecuritySettings
from barnabas.client.settings import (
    AdminSettings,
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
)

_MARKED = re.compile(r"(<!-- begin (\w+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
_KINDS = {"str": "text", "int": "int", "bool": "bool", "tuple[str, ...]": "list", "Any": "object"}
_KINDS["tuple[Any, ...]"] = "list"


def rows(cls: type[Any], without: type[Any] | None = None) -> list[str]:
    """Markdown rows of one table, without what another table has in the same words."""
    inherited = {} if without is None else {row.name: row for row in fields(without)}
    found = []
    for row in fields(cls):
        other = inherited.get(row.name)
        if other is not None and other.default == row.default:
            continue
        meaning = row.metadata["meaning"]
        limits = options.allowed(row)
        if limits and options.kind_of(row) in ("int", "float"):
            meaning = f"{meaning} ({limits})"
        elif limits and options.kind_of(row) == "str":
            meaning = f"{meaning} ({limits})" if limits not in meaning else meaning
        kind = _KINDS[options.kind_of(row)]
        found.append(
            f"| `{options.dotted(row.name)}` | {kind} | {_default(row.default)} | {_cell(meaning)} |"
        )
    return found


def _default(value: Any) -> str:
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        value = ",".join(value)
    return f"`{value}`" if value != "" else '`""`'


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def option_table(cls: type[Any], without: type[Any] | None = None) -> str:
    head = ["| option | type | default | meaning |", "| --- | --- | --- | --- |"]
    return "\n".join(head + rows(cls, without)) + "\n"


def no_effect_table() -> str:
    head = ["| option | why |", "| --- | --- |"]
    return (
        "\n".join(head + [f"| `{name}` | {NO_EFFECT[name]} |" for name in sorted(NO_EFFECT)]) + "\n"
    )


def error_table() -> str:
    """Every exception with what it means, indented under the one it is a kind of."""
    classes = [
        cls
        for cls in vars(errors).values()
        if inspect.isclass(cls) and issubclass(cls, errors.ClientError)
    ]
    lines = ["| exception | a kind of | meaning |", "| --- | --- | --- |"]
    for cls in classes:
        parent = cls.__bases__[0].__name__ if cls is not errors.ClientError else "Exception"
        meaning = inspect.getdoc(cls) or ""
        first = " ".join(meaning.split("\n\n")[0].split())
        lines.append(f"| `{cls.__name__}` | `{parent}` | {_cell(first)} |")
    return "\n".join(lines) + "\n"


PARTS: dict[str, Callable[[], str]] = {
    "producer": lambda: option_table(ProducerSettings, ClientSettings),
    "consumer": lambda: option_table(ConsumerSettings, ClientSettings),
    "admin": lambda: option_table(AdminSettings, ClientSettings),
    "common": lambda: option_table(ClientSettings, SecuritySettings),
    "security": lambda: option_table(SecuritySettings),
    "no_effect": no_effect_table,
    "errors": error_table,
}


def renew(text: str) -> str:
    """The manual with every generated part as it should be."""
    seen = []

    def part(match: re.Match[str]) -> str:
        seen.append(match[2])
        return match[1] + PARTS[match[2]]() + match[3]

    renewed = _MARKED.sub(part, text)
    assert sorted(seen) == sorted(PARTS), f"markers of {sorted(set(PARTS) ^ set(seen))}"
    return renewed


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renew(path.read_text(encoding="utf-8")), encoding="utf-8")
