"""Templates of consume, and the JSON form of a record."""

from __future__ import annotations

import pytest

from barnabas.cli.record_format import Shown, as_data, compile_template

RECORD = Shown(
    "orders", 3, 42, 1_700_000_000_123, b"k\xff", b"value", [("a", b"1"), ("b", None)], 7, 5
)
NULLS = RECORD._replace(key=None, value=None, headers=[])


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("%v\\n", b"value\n"),
        ("%s", b"value"),
        ("%t-%p:%o", b"orders-3:42"),
        ("%k", b"k\xff"),
        ("%k{hex}", b"6bff"),
        ("%k{base64}", b"a/8="),
        ("%k{json}", b'{"base64": "a/8="}'),
        ("%v{json}", b'"value"'),
        ("%v{len}", b"5"),
        ("%K %V %S %H", b"2 5 5 2"),
        ("%T", b"1700000000123"),
        ("%d", b"2023-11-14T22:13:20.123Z"),
        ("%d{%H:%M}", b"22:13"),
        ("%h", b"a=1,b="),
        ("%h{%k:%v;}", b"a:1;b:;"),
        ("%e %i", b"7 5"),
        ("%o{6}", b"    42"),
        ("%o{06}", b"000042"),
        ("%o{hex}", b"2a"),
        ("100%% \\t\\x41\\\\", b"100% \tA\\"),
        ("ü", "ü".encode()),
    ],
)
def test_templates(template: str, expected: bytes) -> None:
    assert compile_template(template)(RECORD) == expected


def test_nulls() -> None:
    assert compile_template("%k|%v|%K|%V|%h", b"NULL")(NULLS) == b"NULL|NULL|-1|-1|"
    assert compile_template("%v{json}")(NULLS) == b"null"
    assert compile_template("%v{hex}")(NULLS) == b""


@pytest.mark.parametrize(
    "template", ["%", "%z", "%v{", "%v{rot13}", "%o{x}", "\\q", "\\xZZ", "%h{%q}", "trailing \\"]
)
def test_wrong_templates(template: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        compile_template(template)


def test_json_keeps_bytes_that_are_no_text() -> None:
    assert as_data(RECORD) == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_700_000_000_123,
        "key": {"base64": "a/8="},
        "value": "value",
        "headers": [{"key": "a", "value": "1"}, {"key": "b", "value": None}],
    }
