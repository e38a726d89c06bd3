"""Exit codes, and the one place that turns an exception into a message and a code.

0 done · 1 failed · 2 wrong usage · 3 not found · 4 timeout or unreachable · 130 Ctrl-C

Scripts may rely on them; they are printed at the end of `barnabas --help`.
"""

from __future__ import annotations

import sys
from typing import Any

OK = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
UNREACHABLE = 4
INTERRUPTED = 130


class CommandError(Exception):
    """A command cannot do what was asked; `code` is what the process exits with."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def code_for(error: BaseException) -> int | None:
    """The exit code for an expected failure; None for one that is a defect of this program."""
    if isinstance(error, CommandError):
        return error.code
    errors: Any = sys.modules.get("barnabas.client.errors")
    if errors is not None and isinstance(error, errors.ClientError):
        if isinstance(error, errors.OptionError):
            return USAGE
        if isinstance(error, errors.NotFoundError):
            return NOT_FOUND
        unreachable = (
            errors.ConnectionFailure,
            errors.NoBrokerReachable,
            errors.RequestTimeout,
        )
        return UNREACHABLE if isinstance(error, unreachable) else FAILED
    if isinstance(error, FileNotFoundError):
        return NOT_FOUND
    if isinstance(error, OSError):
        return FAILED
    return None


def describe(error: BaseException) -> str:
    """One sentence or more for a person."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def worst(codes: list[int]) -> int:
    """One code for several failures: theirs if they agree, 1 if they differ."""
    bad = {code for code in codes if code != OK}
    if not bad:
        return OK
    return bad.pop() if len(bad) == 1 else FAILED
