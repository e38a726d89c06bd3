"""What was recorded of our controller with several brokers is what Apache Kafka's does.

The brokers are only words on the controller's listener: the scripts register them, send their
heartbeats and report in-sync sets. Answers are compared, and so are the records in Apache's own
metadata log. Offsets and epochs of brokers differ and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from barnabas.metadata.delta import MetadataDelta
from barnabas.metadata.image import EMPTY, MetadataImage
from barnabas.record.batch import iterate_batches
from barnabas.record.read import batch_records
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.broker_registration import Feature
from barnabas.wire.records.metadata import NoOpRecord, decode_metadata_record
from tests.controller.harness import Machine
from tests.controller.script import Script
from tests.peers import apache
from tests.peers.wire_connection import Wire

DIRECTORY = Path(__file__).parent.parent / "scripts" / "controller" / "cluster"
NAMES = ("isr", "reassignment", "controlled_shutdown")


class Batch(NamedTuple):
    base_offset: int
    values: list[bytes]
    controls: tuple[()] = ()


class ApacheLog:
    """Apache's metadata log, read from its files."""

    start_offset = 0

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def batches(self, since: int) -> Iterator[Batch]:
        for path in sorted(self._directory.glob("*.log")):
            data = memoryview(path.read_bytes())
            for header, start, _end in iterate_batches(data):
                if header.is_control:
                    continue
                for offset, _timestamp, _key, value, _headers in batch_records(data, header, start):
                    record = decode_metadata_record(bytes(value))[0]
                    if offset >= since and not isinstance(record, NoOpRecord):
                        yield Batch(offset, [bytes(value)])

    @property
    def end_offset(self) -> int:
        return max((batch.base_offset for batch in self.batches(0)), default=-1) + 1


class ApacheController:
    def __init__(self, wire: Wire, cluster_id: str) -> None:
        self._wire = wire
        self.cluster_id = cluster_id

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        async def ask(request: Any) -> Any:
            response = self._wire.ask(request, request.VERSIONS[1])
            code = getattr(response, "error_code", 0)
            if code:
                raise ApiError(ErrorCode(code), getattr(response, "error_message", None))
            return response

        return ask


class ApacheMachine:
    """As much of a `Machine` as the scripts need."""

    heartbeat = Machine.heartbeat

    def __init__(self, broker: apache.ApacheBroker, wire: Wire) -> None:
        meta = (broker.data_dir / "meta.properties").read_text()
        cluster_id = re.findall("cluster.id=(.*)", meta)[0]
        self.formatted = SimpleNamespace(cluster_id=cluster_id)
        self.log = ApacheLog(broker.data_dir / "__cluster_metadata-0")
        self.raft = SimpleNamespace(log=self.log)
        self.controller: Any = ApacheController(wire, cluster_id)

    def register(self, broker_id: int, **changes: Any) -> int:
        """With every feature that Apache finalizes by itself."""
        features = [
            Feature(name=name, min_supported_version=0, max_supported_version=99)
            for name in self.image.features.finalized_levels
        ]
        return Machine.register(self, broker_id, features=features, **changes)  # type: ignore[arg-type]

    @property
    def replica(self) -> SimpleNamespace:
        return SimpleNamespace(image=self.image)

    @property
    def image(self) -> MetadataImage:
        delta = MetadataDelta(EMPTY)
        last = -1
        for batch in self.log.batches(0):
            delta.replay(decode_metadata_record(batch.values[0])[0])
            last = batch.base_offset
        return delta.apply(last, 1)


class ApacheScript(Script):
    def __init__(self, machine: ApacheMachine) -> None:
        super().__init__()
        self._machine = machine  # type: ignore[assignment]
        self._shown = machine.log.end_offset

    @property
    def image(self) -> MetadataImage:
        return self.machine.image  # type: ignore[attr-defined, no-any-return]


def plain(text: str) -> list[str]:
    """Without what differs between clusters."""
    text = re.sub(r"record \d+", "record", text)
    text = re.sub(r"(STALE_BROKER_EPOCH) .*", r"\1", text)
    # Ids are random bytes, so there may be brackets and quotes among them.
    text = re.sub(r""" directories=\[(b'(\\.|[^'\\])*'|b"(\\.|[^"\\])*"|[, ])*\]""", "", text)
    text = re.sub(r"^> epoch \d+", "> epoch", text, flags=re.MULTILINE)
    text = re.sub(r"(broker \d+) epoch=\d+", r"\1", text)
    return text.splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_apache_decides_alike(name: str, tmp_path: Path) -> None:
    if (reason := apache.missing()) is not None:
        pytest.skip(reason)
    settings = {"node.id": "1", "broker.session.timeout.ms": "600000"}
    settings |= {"replica.lag.time.max.ms": "600000", "auto.leader.rebalance.enable": "false"}
    broker = apache.start_broker(tmp_path, settings)
    try:
        properties = next(tmp_path.rglob("*.properties")).read_text()
        address = re.findall(r"CONTROLLER://([^,\s]*)", properties)[0]
        with Wire(address) as wire:
            recorded = (DIRECTORY / f"{name}.txt").read_text()
            shown = ApacheScript(ApacheMachine(broker, wire)).run(recorded)
            assert plain(shown) == plain(recorded)
    finally:
        broker.kill()  # a clean shutdown would wait for brokers that are only words
