"""What a topic may be called.

A name becomes a directory, so it is short and has only letters, digits, dots, underscores and
dashes. Dots and underscores become the same character in metric names, so two topics whose names
differ only there collide and the second one is refused.
"""

from __future__ import annotations

import re
from typing import Final

MAX_NAME_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_error(name: str) -> str | None:
    """Why a topic cannot have this name, in Kafka's words; None if it can."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name == ".":
        return "Topic name is invalid: '.' is not allowed"
    if name == "..":
        return "Topic name is invalid: '..' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length "
            f"{MAX_NAME_LENGTH}"
        )
    if _LEGAL.fullmatch(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def has_collision_characters(name: str) -> bool:
    return "." in name or "_" in name


def collision_key(name: str) -> str:
    """Equal for the names that collide with one another."""
    return name.replace(".", "_")
