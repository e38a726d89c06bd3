"""Kafka's 128-bit ids: 16 raw bytes in memory and on the wire, 22 characters of text for people.

The text is URL-safe base64 without padding, as every Kafka tool prints it. The first hundred values
are reserved: zero means "none", and a few others have a fixed meaning as log directory ids.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

ZERO = bytes(16)
"""No id."""

METADATA_TOPIC_ID = (1).to_bytes(16, "big")
"""The id of the topic `__cluster_metadata`."""

MIGRATING_DIRECTORY = ZERO
"""The replica was placed before directories had ids."""

UNASSIGNED_DIRECTORY = (1).to_bytes(16, "big")
"""The replica has no log directory yet."""

LOST_DIRECTORY = (2).to_bytes(16, "big")
"""The replica's log directory is offline and not known by id."""

_RESERVED = 100
_TEXT_LENGTH_LIMIT = 24


def to_text(uuid: bytes) -> str:
    """The 22 characters that Kafka prints."""
    return base64.urlsafe_b64encode(uuid)[:22].decode("ascii")


def from_text(text: str) -> bytes:
    """The 16 bytes behind Kafka's text form; ValueError if it is not one."""
    if len(text) > _TEXT_LENGTH_LIMIT:
        raise ValueError(f"{text[:_TEXT_LENGTH_LIMIT]!r}… is too long for an id in base64")
    try:
        uuid = base64.b64decode(text.rstrip("=") + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{text!r} is not an id in URL-safe base64") from None
    if len(uuid) != 16:
        raise ValueError(f"{text!r} holds {len(uuid)} bytes where an id has 16")
    return uuid


def is_reserved(uuid: bytes) -> bool:
    """True for the values that Kafka keeps for special meanings."""
    return int.from_bytes(uuid, "big") < _RESERVED


def random_uuid(random_bytes: Callable[[int], bytes]) -> bytes:
    """A fresh version 4 id whose text does not start with a dash, so that commands can take it."""
    while True:
        raw = bytearray(random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        uuid = bytes(raw)
        if not is_reserved(uuid) and not to_text(uuid).startswith("-"):
            return uuid
