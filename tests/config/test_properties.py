"""Java properties files, as `java.util.Properties` reads and writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.properties import PropertiesError, read_properties, write_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a = 1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a : 1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("a\t1", {"a": "1"}),
        ("  a=1", {"a": "1"}),
        ("a=1  ", {"a": "1  "}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=1", {"": "1"}),
        ("a==1", {"a": "=1"}),
        ("a= =1", {"a": "=1"}),
        ("a=b=c", {"a": "b=c"}),
        ("a=1\na=2", {"a": "2"}),
        ("# comment\n! comment\n\n   \na=1", {"a": "1"}),
        ("  # indented comment\na=1", {"a": "1"}),
        ("a=1 # no comment", {"a": "1 # no comment"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1,\\\n   2,\\\n\t3", {"a": "1,2,3"}),
        ("a=1\\\n# kept", {"a": "1# kept"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=x\\ty\\nz\\r\\f", {"a": "x\ty\nz\r\f"}),
        ("a=\\q\\=\\:\\#", {"a": "q=:#"}),
        ("a\\=b=1", {"a=b": "1"}),
        ("a\\ b c", {"a b": "c"}),
        ("a\\:b:c", {"a:b": "c"}),
        ("a=\\u00e9\\u4e2D", {"a": "é中"}),
        ("a=\\uD83D\\uDE00", {"a": "😀"}),
        ("a=é", {"a": "é"}),
        ("#comment \\\na=1", {"a": "1"}),
        ("log.dirs=/a\\,b", {"log.dirs": "/a,b"}),
    ],
)
def test_reading(text: str, expected: dict[str, str]) -> None:
    assert read_properties(text) == expected


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uzzzz", "\\u=1", "a=\\u-123"])
def test_a_broken_escape_is_an_error(text: str) -> None:
    with pytest.raises(PropertiesError, match="Malformed"):
        read_properties(text)


def test_writing() -> None:
    text = write_properties({"a b": " x y", "k": "é=1\n"}, comment="Two\nlines")
    assert text == "#Two\n#lines\na\\ b=\\ x y\nk=\\u00E9\\=1\\n\n"


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_is_read(values: dict[str, str]) -> None:
    values = {
        name.encode("utf-8", "ignore").decode(): value.encode("utf-8", "ignore").decode()
        for name, value in values.items()
    }
    assert read_properties(write_properties(values)) == values
