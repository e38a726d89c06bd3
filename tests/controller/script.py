"""Runs a text script against a controller and writes down everything visible.

A script is commands, one a line, each followed by what it caused, lines that begin with ">": the
answer, and the records that are in the log after it. `#` begins a comment. The requests are those
of `requests.py`; the others are about the controller itself:

    settings KEY=VALUE ...        of the node; only at the beginning
    broker ID [epoch] ...         register | heartbeat [fence|shutdown|behind] | unregister
    producer-ids                  one more block of them
    restart | crash               the controller stops in order, or loses its power
    advance MS [ID ...]           time goes on, these brokers are alive, and upkeep is done
    brokers ID[:RACK] ...         register these and let them serve
    isr T-0 1,2 [key=value ...]   AlterPartition: leader=, leader-epoch=, partition-epoch=, recovery=,
                                  broker-epoch= (of the leader), epochs= (of the members); +1 is relative
    elect preferred|unclean [T-0 ...]
    reassign T-0 1,2|cancel [same-factor]
    reassignments
    directory BROKER NAME T-0     AssignReplicasToDirs
    files                         what is in the directory of the metadata log
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from barnabas.metadata.image import MetadataImage, PartitionRegistration
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages import alter_partition, elect_leaders
from barnabas.wire.messages import alter_partition_reassignments as reassignments
from barnabas.wire.messages import assign_replicas_to_dirs as assignments
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from barnabas.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from barnabas.wire.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.wire.records import metadata as records
from tests.controller import requests
from tests.controller.harness import Machine, run

METADATA_DIRECTORY = "/data0/__cluster_metadata-0"
HANDLERS = {
    "create": "create_topics",
    "delete": "delete_topics",
    "partitions": "create_partitions",
    "alter": "incremental_alter_configs",
    "replace": "alter_configs",
    "features": "update_features",
}


class Script:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._settings = {"node.id": "1"}
        self._machine: Machine | None = None
        self._shown = 0

    def run(self, text: str) -> str:
        out = []
        for line in text.splitlines():
            if line.startswith(">"):
                continue
            out.append(line)
            words = shlex.split(line, comments=True)
            if words:
                self._lines = []
                self._command(words)
                out += [f"> {shown}" for shown in self._lines]
        return "\n".join(out) + "\n"

    @property
    def machine(self) -> Machine:
        if self._machine is None:
            self._machine = Machine(self._settings)
            self._machine.start()
            self._shown = self._machine.raft.log.end_offset
        return self._machine

    @property
    def image(self) -> MetadataImage:
        return self.machine.controller.image

    def _command(self, words: list[str]) -> None:
        name = words[0]
        if name in requests.REQUESTS:
            ids = {topic.name: topic.topic_id for topic in self.image.topics.values()}
            request = requests.make(words, ids)
            handler = getattr(self.machine.controller, HANDLERS[name])
            self._ask(handler(request), lambda response: requests.show(name, response))
        else:
            command: Callable[[list[str]], None] = getattr(self, "do_" + name.replace("-", "_"))
            command(words[1:])
        if self._machine is not None:
            self._show_records()

    def _ask(self, work: Coroutine[Any, Any, Any], show: Callable[[Any], list[str]]) -> None:
        try:
            self._lines += show(run(work))
        except ApiError as error:
            self._lines.append(requests.error(error.code, error.message))

    def _show_records(self) -> None:
        log = self.machine.raft.log
        for batch in log.batches(max(self._shown, log.start_offset)):
            if batch.controls:
                kinds = " ".join(control.type.name for control in batch.controls)
                self._lines.append(f"record {batch.base_offset} control {kinds}")
            for offset, value in enumerate(batch.values, batch.base_offset):
                record = records.decode_metadata_record(value)[0]
                self._lines.append(f"record {offset} {self._record(record)}")
        self._shown = log.end_offset

    def _record(self, record: Message) -> str:
        names = {topic.topic_id: topic.name for topic in self.image.topics.values()}
        if isinstance(record, records.TopicRecord):
            return f"topic {record.name}"
        if isinstance(record, records.PartitionRecord):
            return (
                f"partition {names.get(record.topic_id)}-{record.partition_id} "
                f"replicas={record.replicas} isr={record.isr} leader={record.leader}"
            )
        if isinstance(record, records.PartitionChangeRecord):
            return f"change of {names.get(record.topic_id)}-{record.partition_id} {_set(record)}"
        if isinstance(record, records.RemoveTopicRecord):
            return "topic removed"
        if isinstance(record, records.ConfigRecord):
            return (
                f"config {requests.NAMES[record.resource_type]} {record.resource_name or '(all)'} "
                f"{record.name}={record.value}"
            )
        if isinstance(record, records.FeatureLevelRecord):
            return f"feature {record.name}={record.feature_level}"
        if isinstance(record, records.ProducerIdsRecord):
            return f"producer ids up to {record.next_producer_id} epoch={record.broker_epoch}"
        if isinstance(record, records.RegisterBrokerRecord):
            return f"broker {record.broker_id} epoch={record.broker_epoch} fenced={record.fenced}"
        if isinstance(record, records.BrokerRegistrationChangeRecord):
            return f"change of broker {record.broker_id} {_set(record)}"
        return type(record).__name__

    # ---- the node

    def do_settings(self, words: list[str]) -> None:
        assert self._machine is None, "settings come first"
        self._settings |= dict(word.split("=", 1) for word in words)

    def do_restart(self, words: list[str]) -> None:
        machine = self.machine
        broker = self.image.brokers[1]
        machine.heartbeat(1, broker.epoch, metadata_offset=self.image.offset, want_shut_down=True)
        for _ in range(2):
            machine.heartbeat(
                1, broker.epoch, metadata_offset=self.image.offset, want_shut_down=True
            )
        machine.stop()
        self._show_records()
        machine.previous_broker_epoch = broker.epoch
        machine.restart()

    def do_crash(self, words: list[str]) -> None:
        self.machine.disk.power_cut(random.Random(7))
        self.machine.restart()

    def do_advance(self, words: list[str]) -> None:
        self.machine.clock.ms += int(words[0])
        self.machine.disk.now_ms = self.machine.clock.ms
        self.do_alive(["1", *words[1:]])
        self.machine.replica.maintain(self.machine.clock.ms)
        self.machine.controller.tick(self.machine.clock.ms)

    def do_files(self, words: list[str]) -> None:
        self._lines += [
            name
            for name in self.machine.disk.list(METADATA_DIRECTORY)
            if name.endswith((".log", ".checkpoint", ".deleted"))
        ]

    def do_topics(self, words: list[str]) -> None:
        for name in sorted(self.image.topics):
            for index, partition in self.image.topics[name].partitions.items():
                self._lines.append(
                    f"{name}-{index} leader={partition.leader} epoch={partition.leader_epoch} "
                    f"isr={list(partition.isr)} elr={list(partition.elr)}"
                    + (" recovering" if partition.leader_recovery_state else "")
                )

    # ---- brokers and producer ids

    def do_producer_ids(self, words: list[str]) -> None:
        self._ask(
            self.machine.controller.allocate_producer_ids_for(
                AllocateProducerIdsRequest(broker_id=1, broker_epoch=self.image.brokers[1].epoch)
            ),
            lambda block: [
                f"ids {block.producer_id_start} to "
                f"{block.producer_id_start + block.producer_id_len - 1}"
            ],
        )

    def do_register(self, words: list[str]) -> None:
        broker_id, *options = words
        given = dict(word.split("=", 1) for word in options)
        directories = given.get("directories", broker_id)
        low, high = given.get("metadata", "7-30").split("-")
        request = BrokerRegistrationRequest(
            broker_id=int(broker_id),
            cluster_id=given.get("cluster", self.machine.controller.cluster_id),
            incarnation_id=given.get("incarnation", broker_id).encode().ljust(16, b"."),
            listeners=[Listener(name="PLAINTEXT", host="h", port=9092)],
            features=[
                Feature(
                    name="metadata.version",
                    min_supported_version=int(low),
                    max_supported_version=int(high),
                )
            ],
            rack=given.get("rack"),
            previous_broker_epoch=int(given.get("previous", -1)),
            log_dirs=[_directory(each) for each in directories.split(",") if each],
        )
        self._ask(
            self.machine.controller.register_broker(request),
            lambda response: [f"epoch {response.broker_epoch}"],
        )

    def do_heartbeat(self, words: list[str]) -> None:
        broker_id, *options = words
        broker = self.image.brokers.get(int(broker_id))
        epoch = -1 if broker is None else broker.epoch
        request = BrokerHeartbeatRequest(
            broker_id=int(broker_id),
            broker_epoch=epoch - 1 if "stale" in options else epoch,
            current_metadata_offset=epoch - 1 if "behind" in options else self.image.offset,
            want_fence="fence" in options,
            want_shut_down="shutdown" in options,
            offline_log_dirs=[
                _directory(each.removeprefix("offline="))
                for each in options
                if each.startswith("offline=")
            ],
        )
        self._ask(
            self.machine.controller.heartbeat_broker(request),
            lambda response: [
                f"caught-up={response.is_caught_up} fenced={response.is_fenced} "
                f"may-go={response.should_shut_down}"
            ],
        )

    def do_unregister(self, words: list[str]) -> None:
        request = UnregisterBrokerRequest(broker_id=int(words[0]))
        self._ask(self.machine.controller.unregister_broker(request), lambda _: ["unregistered"])

    def do_brokers(self, words: list[str]) -> None:
        for word in words:
            broker_id, _, rack = word.partition(":")
            epoch = self.machine.register(
                int(broker_id), incarnation=broker_id.encode() * 16, rack=rack or None
            )
            self.machine.heartbeat(int(broker_id), epoch, metadata_offset=self.image.offset)
        self._shown = self.machine.raft.log.end_offset

    def do_alive(self, words: list[str]) -> None:
        """Heartbeats of brokers that have seen everything; what they are told is not shown."""
        for word in words:
            broker = self.image.brokers[int(word)]
            self.machine.heartbeat(int(word), broker.epoch, metadata_offset=self.image.offset)

    # ---- partitions

    def _partition(self, word: str) -> tuple[bytes, int, PartitionRegistration | None]:
        name, _, index = word.rpartition("-")
        topic = self.image.topics.get(name)
        if topic is None:
            return b"?" * 16, int(index), None
        return topic.topic_id, int(index), topic.partitions.get(int(index))

    def do_isr(self, words: list[str]) -> None:
        word, isr, *options = words
        given = dict(option.split("=", 1) for option in options)
        topic_id, index, partition = self._partition(word)
        leader = int(given.get("leader", partition.leader if partition else 1))
        broker = self.image.brokers.get(leader)
        members = [int(each) for each in isr.split(",") if each]
        epochs = {each: b.epoch for each in members if (b := self.image.brokers.get(each))}
        shift = int(given.get("epochs", 0))
        data = alter_partition.AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=(partition.leader_epoch if partition else 0)
            + int(given.get("leader-epoch", 0)),
            partition_epoch=(partition.partition_epoch if partition else 0)
            + int(given.get("partition-epoch", 0)),
            leader_recovery_state=int(given.get("recovery", 0)),
            new_isr_with_epochs=[
                alter_partition.BrokerState(
                    broker_id=each, broker_epoch=epochs.get(each, 0) + shift
                )
                for each in members
            ],
        )
        request = alter_partition.AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=(broker.epoch if broker else 0) + int(given.get("broker-epoch", 0)),
            topics=[
                alter_partition.AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[data])
            ],
        )

        def show(response: alter_partition.AlterPartitionResponse) -> list[str]:
            found = response.topics[0].partitions[0]
            if found.error_code:
                return [ErrorCode(found.error_code).name]
            return [
                f"leader={found.leader_id} leader-epoch={found.leader_epoch} isr={found.isr} "
                f"recovery={found.leader_recovery_state} partition-epoch={found.partition_epoch}"
            ]

        self._ask(self.machine.controller.alter_partition(request), show)

    def do_elect(self, words: list[str]) -> None:
        kind, *partitions = words
        request = elect_leaders.ElectLeadersRequest(
            election_type={"preferred": 0, "unclean": 1}.get(kind, 9),
            topic_partitions=[
                elect_leaders.TopicPartitions(
                    topic=each.rpartition("-")[0], partitions=[int(each.rpartition("-")[2])]
                )
                for each in partitions
            ]
            or None,
        )

        def show(response: elect_leaders.ElectLeadersResponse) -> list[str]:
            return [
                f"{topic.topic}-{each.partition_id}: "
                f"{requests.error(each.error_code, each.error_message)}"
                for topic in response.replica_election_results
                for each in topic.partition_result
            ]

        self._ask(self.machine.controller.elect_leaders(request), show)

    def do_reassign(self, words: list[str]) -> None:
        word, target, *options = words
        name, _, index = word.rpartition("-")
        replicas = None if target == "cancel" else [int(each) for each in target.split(",") if each]
        request = reassignments.AlterPartitionReassignmentsRequest(
            allow_replication_factor_change="same-factor" not in options,
            topics=[
                reassignments.ReassignableTopic(
                    name=name,
                    partitions=[
                        reassignments.ReassignablePartition(
                            partition_index=int(index), replicas=replicas
                        )
                    ],
                )
            ],
        )

        def show(response: reassignments.AlterPartitionReassignmentsResponse) -> list[str]:
            found = response.responses[0].partitions[0]
            return [requests.error(found.error_code, found.error_message)]

        self._ask(self.machine.controller.alter_partition_reassignments(request), show)

    def do_reassignments(self, words: list[str]) -> None:
        request = ListPartitionReassignmentsRequest(topics=None)
        self._ask(
            self.machine.controller.list_partition_reassignments(request),
            lambda response: [
                f"{topic.name}-{each.partition_index} replicas={each.replicas} "
                f"adding={each.adding_replicas} removing={each.removing_replicas}"
                for topic in response.topics
                for each in topic.partitions
            ],
        )

    def do_directory(self, words: list[str]) -> None:
        broker_id, directory, word = words
        topic_id, index, _partition = self._partition(word)
        broker = self.image.brokers.get(int(broker_id))
        request = assignments.AssignReplicasToDirsRequest(
            broker_id=int(broker_id),
            broker_epoch=broker.epoch if broker else 0,
            directories=[
                assignments.AssignReplicasToDirsRequestDirectoryData(
                    id=_directory(directory),
                    topics=[
                        assignments.AssignReplicasToDirsRequestTopicData(
                            topic_id=topic_id,
                            partitions=[
                                assignments.AssignReplicasToDirsRequestPartitionData(
                                    partition_index=index
                                )
                            ],
                        )
                    ],
                )
            ],
        )
        self._ask(
            self.machine.controller.assign_replicas_to_dirs(request),
            lambda response: [
                ErrorCode(response.directories[0].topics[0].partitions[0].error_code).name
            ],
        )


def _directory(name: str) -> bytes:
    return name.encode().ljust(16, b"d")


def _set(record: Message) -> str:
    """The fields of a change that it sets."""
    plain = type(record)()
    return " ".join(
        f"{name}={getattr(record, name)}"
        for name in record.__slots__
        if getattr(record, name) != getattr(plain, name)
        and name not in ("topic_id", "partition_id", "broker_id", "broker_epoch")
    )


def run_file(path: Path) -> str:
    return Script().run(path.read_text())
