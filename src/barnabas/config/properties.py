"""Java properties files, as Kafka's configuration is written.

The format: `key=value`, `key: value` or `key value`; `#` and `!` begin comments; a backslash at the
end of a line continues it, with the next line's leading blanks dropped; `\\t \\n \\r \\f` and
`\\uXXXX` are escapes, any other escaped character stands for itself. A key given twice keeps its
last value. Reading never fails for a strange line, only for a broken `\\u` escape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


class PropertiesError(ValueError):
    """The text is not a properties file."""


def read_properties(text: str) -> dict[str, str]:
    """The settings of a properties file, in the order in which they stand there."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        split, value_at = _split(line)
        found[_unescape(line[:split])] = _unescape(line[value_at:])
    return found


def write_properties(values: Mapping[str, str], comment: str | None = None) -> str:
    """A properties file with these settings, one a line."""
    lines = [f"#{line}" for line in comment.splitlines()] if comment is not None else []
    lines += [f"{_escape(name, in_key=True)}={_escape(v)}" for name, v in values.items()]
    return "".join(f"{line}\n" for line in lines)


def _logical_lines(text: str) -> Iterator[str]:
    pending: str | None = None
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(_BLANK)
        if pending is None and (not line or line[0] in "#!"):
            continue
        joined = line if pending is None else pending + line
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            pending = joined[:-1]
        else:
            pending = None
            yield joined
    if pending:
        yield pending


def _split(line: str) -> tuple[int, int]:
    """Where the key ends and where the value begins."""
    end = 0
    while end < len(line) and line[end] not in "=:" and line[end] not in _BLANK:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    start = end
    while start < len(line) and line[start] in _BLANK:
        start += 1
    if start < len(line) and line[start] in "=:":
        start += 1
        while start < len(line) and line[start] in _BLANK:
            start += 1
    return end, start


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character != "\\" or at >= len(text):
            parts.append(character)
            continue
        escaped = text[at]
        at += 1
        if escaped != "u":
            parts.append(_ESCAPES.get(escaped, escaped))
            continue
        digits = text[at : at + 4]
        if len(digits) != 4 or any(d not in "0123456789abcdefABCDEF" for d in digits):
            raise PropertiesError(f"Malformed \\uxxxx encoding: \\u{digits}")
        parts.append(chr(int(digits, 16)))
        at += 4
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, in_key: bool = False) -> str:
    parts: list[str] = []
    for at, character in enumerate(text):
        if character in _WRITTEN:
            parts.append(_WRITTEN[character])
        elif character == "\\" or character in "=:#!" or (character == " " and (in_key or not at)):
            parts.append("\\" + character)
        elif " " <= character <= "~":
            parts.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            parts += [f"\\u{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2)]
    return "".join(parts)
