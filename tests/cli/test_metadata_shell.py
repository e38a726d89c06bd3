"""The shell over a small tree: paths, patterns, completion, and what is wrong."""

from __future__ import annotations

import pytest

from barnabas.cli.metadata_shell import HELP, Exit, Shell
from barnabas.cli.metadata_source import Loaded
from barnabas.cli.metadata_tree import Leaf, Tree, build
from barnabas.metadata.image import EMPTY


@pytest.fixture
def shell() -> Shell:
    tree: Tree = {
        "image": {
            "topics": {"orders": {"0": Leaf("zero"), "1": Leaf("one")}, "odd name": {}},
            "epoch": Leaf(7),
        },
        "local": {"version": Leaf("1")},
    }
    return Shell(tree)


def said(shell: Shell, text: str) -> list[str]:
    return list(shell.line(text))


def test_walking(shell: Shell) -> None:
    assert said(shell, "pwd") == ["/"]
    assert said(shell, "cd image/topics") == []
    assert said(shell, "pwd") == ["/image/topics"]
    assert said(shell, "ls") == ["orders", "odd name"]
    assert said(shell, "ls 'odd name'") == []
    assert said(shell, "cat orders/0 ../epoch /local/version") == ["zero", "7", "1"]
    assert said(shell, "cat or*/[01]") == ["zero", "one"]
    assert said(shell, "find orders") == ["orders", "orders/0", "orders/1"]
    assert said(shell, "tree orders") == ["0:", "  zero", "1:", "  one"]
    assert said(shell, "cd ../../../..") == []
    assert said(shell, "pwd") == ["/"]
    assert said(shell, "ls image local") == ["image:", "topics", "epoch", "", "local:", "version"]
    assert said(shell, "cd") == []
    assert not shell.failed


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("cat nope", "cat: nope: No such file or directory."),
        ("cat image", "cat: /image: Is a directory"),
        ("cat", "cat: give the names of files."),
        ("ls nope", "ls: nope: no such file or directory."),
        ("find nope", "find: nope: no such file or directory."),
        ("tree nope", "tree: nope: no such file or directory."),
        ("cd nope", "cd: nope: no such file or directory."),
        ("cd image/epoch", "cd: image/epoch: not a directory."),
        ("cat image/epoch/deeper", "cat: image/epoch/deeper: No such file or directory."),
        ("rm image", "rm: no such command; 'help' names those there are."),
        ("match x", "match: no such command; 'help' names those there are."),
    ],
)
def test_mistakes(shell: Shell, line: str, answer: str) -> None:
    assert said(shell, line) == [answer]
    assert shell.failed


def test_the_rest(shell: Shell) -> None:
    assert said(shell, "") == []
    assert said(shell, "cat 'unfinished") == ["No closing quotation"]
    assert said(shell, "help") == list(HELP.values())
    assert said(shell, "history 2") == ["    2  help", "    3  history 2"]
    for word in ("exit", "quit"):
        with pytest.raises(Exit):
            said(shell, word)


def test_completion(shell: Shell) -> None:
    assert shell.complete("c", "c") == ["cat ", "cd "]
    assert shell.complete("ls ", "") == ["image/", "local/"]
    assert shell.complete("cat image/e", "image/e") == ["image/epoch "]
    assert shell.complete("cd image/", "image/") == ["image/topics/"]
    assert shell.complete("cat /image/topics/orders/", "/image/topics/orders/") == [
        "/image/topics/orders/0 ",
        "/image/topics/orders/1 ",
    ]
    assert shell.complete("cat nope/", "nope/") == []
    assert shell.complete("pwd ", "") == []


@pytest.mark.parametrize(
    ("millis", "shown"), [(0, "40"), (5, "40.005"), (850, "40.85"), (900, "40.9"), (123, "40.123")]
)
def test_a_moment_has_no_zeros_at_its_end(millis: int, shown: str) -> None:
    tree = build(Loaded(EMPTY, 1_600_000_000_000 + millis, "here"), "1")
    (line,) = said(Shell(tree), "cat /image/provenance")
    assert line.endswith(f"time 2020-09-13T12:26:{shown}Z[UTC]")
