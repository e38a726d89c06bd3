"""Tables, YAML and exit codes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import yaml

from barnabas.cli import exits, yaml_text
from barnabas.cli.output import Output, aligned
from barnabas.client import errors
from barnabas.wire.errors import ErrorCode

VALUES: list[Any] = [
    {},
    [],
    None,
    True,
    1.5,
    "",
    "yes",
    "null",
    "12",
    "1e3",
    "a: b",
    "- a",
    "#x",
    " lead",
    "trail ",
    "multi\nline",
    "ü\t\x00",
    "2026-01-01",
    "0x10",
    "~",
    "a, b",
    "{a}",
    "*x",
    "&x",
    "!x",
    "%x",
    "@x",
    "a:b",
    "x #y",
    {"a": {"b": [1, {"c": []}, [2, [3]]]}, "yes": "no", "1": None, "": ""},
    [[], {}, [[1], {"a": [{"b": 1, "c": 2}]}]],
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_yaml_reads_back(value: Any) -> None:
    assert yaml.safe_load(yaml_text.dump(value)) == value


def test_aligned() -> None:
    assert aligned([["A", "N"], ["long", "1"], ["x", "100"]], [False, True]) == [
        "A       N",
        "long    1",
        "x     100",
    ]


def test_table_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    Output("text").table([{"name": "a", "is_it": True, "list": [1, 2], "none": None}])
    assert capsys.readouterr().out == "NAME  IS IT  LIST  NONE\na     yes    1,2   -\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.OptionError("x"), exits.USAGE),
        (errors.broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), exits.NOT_FOUND),
        (errors.broker_error(ErrorCode.GROUP_ID_NOT_FOUND), exits.NOT_FOUND),
        (errors.broker_error(ErrorCode.TOPIC_ALREADY_EXISTS), exits.FAILED),
        (errors.ConnectionRefused("h:1"), exits.UNREACHABLE),
        (errors.RequestTimeout("x", 1), exits.UNREACHABLE),
        (errors.NoBrokerReachable([errors.ConnectionRefused("h:1")], 0), exits.UNREACHABLE),
        (FileNotFoundError(2, "No such file", "x"), exits.NOT_FOUND),
        (PermissionError(13, "denied", "x"), exits.FAILED),
        (exits.CommandError("x", 3), 3),
        (KeyError("a defect"), None),
    ],
)
def test_exit_codes(error: Exception, code: int | None) -> None:
    assert exits.code_for(error) == code


def test_worst() -> None:
    assert exits.worst([]) == exits.OK
    assert exits.worst([0, 3, 3]) == exits.NOT_FOUND
    assert exits.worst([3, 4]) == exits.FAILED


HEAVY = (
    "asyncio",
    "barnabas.wire",
    "barnabas.client",
    "barnabas.record",
    "rich",
    "socket",
    "cramjam",
)


@pytest.mark.parametrize(
    "command",
    [["--help"], ["topic", "--help"], ["consume", "--help"], ["perf", "produce", "--help"]],
)
def test_help_imports_nothing_heavy(command: list[str]) -> None:
    code = (
        "import sys\nfrom barnabas.cli.main import run\n"
        f"code = run({command!r})\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Examples" in done.stdout or command[-2:] == ["topic", "--help"]
    assert done.stderr.strip() == "[]"
