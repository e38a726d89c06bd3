"""What can be wrong with a data directory."""

from __future__ import annotations


class StorageError(Exception):
    """A data directory cannot be used; the message says which one, why, and what helps."""


class LogCorrupt(StorageError):
    """The metadata log or a snapshot of it cannot be read."""


class NotLeader(Exception):
    """Only the leader of the metadata log appends to it."""
