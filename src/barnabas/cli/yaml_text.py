"""Writing YAML: the block form of what JSON can say, which is all that commands print.

A string stands plain only where no reader could take it for anything else; otherwise it is quoted as
in JSON, which YAML reads the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@(+-][A-Za-z0-9_./@()+-]*)*\Z")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"}


def dump(value: Any) -> str:
    """A document without its `---` line, ending with a newline."""
    return "".join(f"{line}\n" for line in _block(value, ""))


def _block(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            if isinstance(item, (dict, list)) and item:
                yield f"{indent}{_scalar(str(key))}:"
                yield from _block(item, indent + ("  " if isinstance(item, dict) else ""))
            else:
                yield f"{indent}{_scalar(str(key))}: {_scalar(item)}"
    elif isinstance(value, list) and value:
        for item in value:
            if isinstance(item, (dict, list)) and item:
                lines = list(_block(item, indent + "  "))
                yield f"{indent}- {lines[0][len(indent) + 2 :]}"
                yield from lines[1:]
            else:
                yield f"{indent}- {_scalar(item)}"
    else:
        yield f"{indent}{_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        if _PLAIN.match(value) and value.lower() not in _WORDS:
            return value
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list):
        return "[]"
    return json.dumps(value)
