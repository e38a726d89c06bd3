"""The first voters of a dynamic quorum, as `--initial-controllers` names them.

`id@host:port:directory-id`, separated by commas. Every node of the quorum is formatted with the same
text, and each one's metadata directory gets the id that stands there for it.
"""

from __future__ import annotations

import re

from barnabas.raft.errors import StorageError
from barnabas.raft.voters import VoterEndpoint, VoterNode, VoterSet
from barnabas.wire import uuids

_ENTRY = re.compile(r"([0-9]+)@\[?([^\]@]*?)\]?:([0-9]{1,5}):([A-Za-z0-9_-]{22})")


def parse_initial_controllers(text: str, listener: str) -> VoterSet:
    """A `StorageError` says which entry is wrong and how it should look."""
    voters: list[VoterNode] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise StorageError(
                f"Unable to parse the initial controller {entry}; the form is "
                "id@host:port:directory-id"
            )
        node_id, host, port = int(match[1]), match[2], int(match[3])
        if not host or port > 65_535:
            raise StorageError(f"The initial controller {entry} has no usable host and port")
        try:
            directory_id = uuids.from_text(match[4])
        except ValueError as error:
            raise StorageError(
                f"The initial controller {entry} has no usable directory id: {error}"
            ) from error
        endpoint = VoterEndpoint(listener, host, port)
        voters.append(VoterNode(node_id, directory_id, (endpoint,)))
    ids = [voter.voter_id for voter in voters]
    if not ids:
        raise StorageError("No initial controllers are named")
    if len(set(ids)) != len(ids):
        raise StorageError("Each initial controller must have a different id")
    directories = {voter.directory_id for voter in voters}
    if len(directories) != len(voters) or uuids.ZERO in directories:
        raise StorageError("Each initial controller must have a different directory id")
    return VoterSet(tuple(voters))


def show_initial_controllers(voters: VoterSet) -> str:
    shown = []
    for voter in voters.voters:
        endpoint = voter.endpoints[0]
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        shown.append(f"{voter.voter_id}@{host}:{endpoint.port}:{uuids.to_text(voter.directory_id)}")
    return ",".join(shown)
