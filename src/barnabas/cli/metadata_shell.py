"""The commands of the metadata shell over a tree: ls, cd, cat, find, tree, pwd, history, help, exit.

`Shell.run` takes the words of one command and gives the lines to print; it knows nothing of a
terminal. Paths may hold `*`, `?` and `[…]`, `.` and `..`, and begin with `/` or at the working
directory.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from barnabas.cli.metadata_tree import Leaf, Tree

HELP = {
    "cat": "cat FILE…          Show the contents of files.",
    "cd": "cd [DIRECTORY]     Go to a directory.",
    "exit": "exit, quit         Leave the shell.",
    "find": "find [DIRECTORY…]  Names of everything below, one a line.",
    "help": "help               This text.",
    "history": "history [N]        The last commands.",
    "ls": "ls [PATH…]         What a directory holds.",
    "pwd": "pwd                Where you are.",
    "tree": "tree [DIRECTORY…]  Everything below, with contents.",
}
_WILD = set("*?[")


class Exit(Exception):
    """The user wants to leave."""


class Shell:
    """`render` says how the contents of a file look."""

    def __init__(self, root: Tree, render: Callable[[Leaf], str] = lambda leaf: leaf.text) -> None:
        self.root = root
        self.render = render
        self.here: tuple[str, ...] = ()
        self.history: list[str] = []
        self.failed = False

    def line(self, text: str) -> Iterator[str]:
        """One line as a person typed it."""
        text = text.strip()
        if not text:
            return
        self.history.append(text)
        try:
            words = shlex.split(text)
        except ValueError as error:
            yield f"{error}"
            return
        yield from self.run(words)

    def run(self, words: Sequence[str]) -> Iterator[str]:
        self.failed = False
        name, *args = words
        method = getattr(self, f"_do_{'exit' if name == 'quit' else name}", None)
        if method is None or name not in {*HELP, "quit"}:
            yield from self._fail(f"{name}: no such command; 'help' names those there are.")
            return
        yield from method(args)

    def _fail(self, message: str) -> Iterator[str]:
        self.failed = True
        yield message

    # -- commands

    def _do_pwd(self, _args: list[str]) -> Iterator[str]:
        yield "/" + "/".join(self.here)

    def _do_exit(self, _args: list[str]) -> Iterator[str]:
        raise Exit

    def _do_help(self, _args: list[str]) -> Iterator[str]:
        yield from HELP.values()

    def _do_history(self, args: list[str]) -> Iterator[str]:
        count = int(args[0]) if args and args[0].isdigit() else len(self.history)
        first = max(0, len(self.history) - count)
        for number, text in enumerate(self.history[first:], first + 1):
            yield f"{number:5}  {text}"

    def _do_cd(self, args: list[str]) -> Iterator[str]:
        found = list(self.match(args[0] if args else "/"))
        if len(found) != 1:
            yield from self._fail(f"cd: {args[0]}: no such file or directory.")
        elif isinstance(found[0][1], Leaf):
            yield from self._fail(f"cd: {args[0]}: not a directory.")
        else:
            self.here = found[0][0]

    def _do_cat(self, args: list[str]) -> Iterator[str]:
        if not args:
            yield from self._fail("cat: give the names of files.")
        for text in args:
            found = list(self.match(text))
            if not found:
                yield from self._fail(f"cat: {text}: No such file or directory.")
            for path, node in found:
                if isinstance(node, Leaf):
                    yield self.render(node)
                else:
                    yield from self._fail(f"cat: /{'/'.join(path)}: Is a directory")

    def _do_find(self, args: list[str]) -> Iterator[str]:
        for text in args or ["."]:
            found = list(self.match(text))
            if not found:
                yield from self._fail(f"find: {text}: no such file or directory.")
            for path, node in found:
                shown = text if len(found) == 1 and not _WILD & set(text) else _name(path)
                yield from _below(shown, node)

    def _do_ls(self, args: list[str]) -> Iterator[str]:
        found: list[tuple[tuple[str, ...], Any]] = []
        for text in args or ["."]:
            matches = list(self.match(text))
            if not matches:
                yield from self._fail(f"ls: {text}: no such file or directory.")
            found += matches
        files = [path[-1] for path, node in found if isinstance(node, Leaf)]
        yield from files
        directories = [(p, n) for p, n in found if not isinstance(n, Leaf)]
        titled = len(found) > 1
        for index, (path, node) in enumerate(directories):
            if titled:
                if index or files:
                    yield ""
                yield f"{path[-1] if path else '/'}:"
            yield from node

    def _do_tree(self, args: list[str]) -> Iterator[str]:
        for text in args or ["."]:
            found = list(self.match(text))
            if not found:
                yield from self._fail(f"tree: {text}: no such file or directory.")
            for _path, node in found:
                yield from self._tree(node, "")

    def _tree(self, node: Any, indent: str) -> Iterator[str]:
        if isinstance(node, Leaf):
            for line in self.render(node).splitlines():
                yield f"{indent}{line}"
            return
        for name, child in node.items():
            yield f"{indent}{name}:"
            yield from self._tree(child, indent + "  ")

    # -- paths

    def match(self, text: str) -> Iterator[tuple[tuple[str, ...], Any]]:
        """What a path stands for, in the order of the tree."""
        start: tuple[str, ...] = () if text.startswith("/") else self.here
        parts = [part for part in text.split("/") if part and part != "."]
        yield from self._match(start, parts)

    def _match(
        self, path: tuple[str, ...], parts: Sequence[str]
    ) -> Iterator[tuple[tuple[str, ...], Any]]:
        node = self._node(path)
        if node is None:
            return
        if not parts:
            yield path, node
            return
        part, rest = parts[0], parts[1:]
        if part == "..":
            yield from self._match(path[:-1], rest)
        elif not isinstance(node, Leaf):
            names = [part]
            if _WILD & set(part) and part not in node:
                names = [name for name in node if fnmatchcase(name, part)]
            for name in names:
                if name in node:
                    yield from self._match((*path, name), rest)

    def _node(self, path: tuple[str, ...]) -> Any:
        node: Any = self.root
        for name in path:
            if isinstance(node, Leaf) or name not in node:
                return None
            node = node[name]
        return node

    # -- completion

    def complete(self, line: str, word: str) -> list[str]:
        """What the word at the end of a line may become."""
        words = line.split()
        if len(words) < 1 or (len(words) == 1 and not line.endswith(" ")):
            return [f"{name} " for name in sorted({*HELP, "quit"}) if name.startswith(word)]
        if words[0] not in ("ls", "cd", "cat", "find", "tree"):
            return []
        head, slash, tail = word.rpartition("/")
        found = list(self.match(head + slash if head or slash else "."))
        if len(found) != 1 or isinstance(found[0][1], Leaf):
            return []
        options = []
        for name, child in found[0][1].items():
            if name.startswith(tail) and not (words[0] == "cd" and isinstance(child, Leaf)):
                options.append(f"{head}{slash}{name}" + (" " if isinstance(child, Leaf) else "/"))
        return options


def _name(path: tuple[str, ...]) -> str:
    return "/" + "/".join(path)


def _below(shown: str, node: Any) -> Iterator[str]:
    yield shown
    if isinstance(node, Leaf):
        return
    for name, child in node.items():
        yield from _below(f"{shown.rstrip('/')}/{name}", child)
