"""What was recorded of the controller is what a broker answers, field by field: ours, and with
BARNABAS_PEERS_SUT=apache Apache Kafka's.

The scripts are those of `tests/scripts/controller/requests`; the lines about records are left out,
since a connection does not show them. Every script has a broker of its own.
"""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import pytest

from barnabas.wire.messages.metadata import MetadataRequest
from tests.controller import requests
from tests.peers import systems
from tests.peers.wire_connection import Wire

SCRIPTS = sorted(
    (Path(__file__).parent.parent / "scripts" / "controller" / "requests").glob("*.txt")
)


def topic_ids(wire: Wire, words: list[str]) -> dict[str, bytes]:
    """The ids of the topics that a command names by id; a broker may learn of a topic late."""
    wanted = {word.partition(":")[2] for word in words if word.startswith(("id:", "both:"))} - {"?"}
    found: dict[str, bytes] = {}
    deadline = time.monotonic() + 20.0
    while not wanted <= found.keys():
        assert time.monotonic() < deadline, f"{wanted} not in the metadata"
        topics = wire.ask(MetadataRequest(topics=None), 12).topics
        found = {topic.name: topic.topic_id for topic in topics}
    return found


def answered(wire: Wire, text: str) -> str:
    out = []
    for line in text.splitlines():
        if line.startswith(">"):
            continue
        out.append(line)
        words = shlex.split(line, comments=True)
        if words:
            request = requests.make(words, topic_ids(wire, words))
            response = wire.ask(request, requests.VERSIONS[words[0]])
            out += [f"> {shown}" for shown in requests.show(words[0], response)]
    return "\n".join(out) + "\n"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_broker_answers_as_recorded(path: Path, tmp_path: Path) -> None:
    if (reason := systems.missing()) is not None:
        pytest.skip(reason)
    recorded = path.read_text()
    expected = [line for line in recorded.splitlines() if not line.startswith("> record ")]
    system = systems.start_system(tmp_path, {"node.id": "1"})
    try:
        with Wire(system.bootstrap) as wire:
            assert answered(wire, recorded).splitlines() == expected
    finally:
        system.stop()
