"""How produce cuts its input."""

from __future__ import annotations

import io

import pytest

from barnabas.cli import record_input
from barnabas.cli.record_input import Incoming


def test_lines_with_keys_and_nulls() -> None:
    stream = io.BytesIO(b"a:1\nplain\nb:NIL\nNIL:2")
    assert list(record_input.read_keyed(stream, b"\n", b":", b"NIL")) == [
        Incoming(b"1", b"a"),
        Incoming(b"plain"),
        Incoming(None, b"b"),
        Incoming(b"2", None),
    ]


def test_other_delimiters() -> None:
    assert list(record_input.read_lines(io.BytesIO(b"a\0b\0\0c"), b"\0")) == [b"a", b"b", b"", b"c"]


def test_json_is_what_consume_prints() -> None:
    lines = (
        b'{"value": "v", "key": {"base64": "a/8="}, "headers": [{"key": "h", "value": null}]}\n\n'
        b'{"value": {"a": 1}}'
    )
    assert list(record_input.read_json(io.BytesIO(lines))) == [
        Incoming(b"v", b"k\xff", (("h", None),)),
        Incoming(b'{"a": 1}'),
    ]


@pytest.mark.parametrize("line", [b"{", b"[1]", b'{"key": 1}'])
def test_wrong_json_names_the_line(line: bytes) -> None:
    with pytest.raises(ValueError, match="line 1"):
        list(record_input.read_json(io.BytesIO(line)))


def test_template() -> None:
    steps = record_input.compile_template("%p %k,%v\\n")
    stream = io.BytesIO(b"0 a,1\n1 b,two words\n2 c,last")
    assert list(record_input.read_template(stream, steps)) == [
        Incoming(b"1", b"a", (), 0),
        Incoming(b"two words", b"b", (), 1),
        Incoming(b"last", b"c", (), 2),
    ]


@pytest.mark.parametrize("template", ["%k", "%k%v\\n", "x%v\\n", "%z\\n", "%k\\n"])
def test_wrong_templates(template: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        record_input.compile_template(template)


def test_input_that_ends_inside_a_record() -> None:
    steps = record_input.compile_template("%k,%v\\n")
    with pytest.raises(ValueError, match="inside a record"):
        list(record_input.read_template(io.BytesIO(b"abc"), steps))
