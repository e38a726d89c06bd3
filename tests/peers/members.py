"""Members of a consumer group, one class a client library, each polling in the background.

All of them subscribe, read, commit what they read, and tell at any time which partitions they hold
and which records they saw; so a group can be made of any mixture.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import Any

from barnabas.client.core.offsets import TopicPartition
from tests.peers import jvm, node_process
from tests.peers.clients import Record, from_json

POLL_S = 0.1
STOP_TIMEOUT_S = 20.0


class Member:
    """A running member; `stop()` leaves the group in good order."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.held: set[str] = set()
        self.seen: list[Record] = []
        self.rebalance_count = 0
        self.failed: str | None = None
        self.stopping = threading.Event()

    def assigned(self) -> set[str]:
        """The partitions it holds now, each as "topic-index"."""
        with self.lock:
            return set(self.held)

    def records(self) -> list[Record]:
        with self.lock:
            return list(self.seen)

    def rebalances(self) -> int:
        with self.lock:
            return self.rebalance_count

    def failure(self) -> str | None:
        return self.failed

    def stop(self) -> None:
        raise NotImplementedError

    def gained(self, partitions: Any) -> None:
        with self.lock:
            self.held |= {f"{p.topic}-{p.partition}" for p in partitions}
            self.rebalance_count += 1

    def lost(self, partitions: Any) -> None:
        with self.lock:
            self.held -= {f"{p.topic}-{p.partition}" for p in partitions}


class ThreadMember(Member):
    """A member whose library runs in a thread of this process."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.Thread(target=self.guarded, daemon=True)
        self.thread.start()

    def guarded(self) -> None:
        try:
            self.run()
        except Exception as error:
            self.failed = repr(error)

    def run(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join(STOP_TIMEOUT_S)
        assert not self.thread.is_alive(), "the member does not stop"


class ConfluentMember(ThreadMember):
    def __init__(self, bootstrap: str, group: str, topics: list[str], **config: Any) -> None:
        self.config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 300,
            "session.timeout.ms": 10_000,
            "partition.assignment.strategy": "range",
            "topic.metadata.refresh.interval.ms": 500,
            **{key.replace("_", "."): value for key, value in config.items()},
        }
        self.topics = topics
        super().__init__()

    def run(self) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(self.config)
        cooperative = self.config["partition.assignment.strategy"].startswith("coop")

        def on_assign(consumer: Any, partitions: Any) -> None:
            self.gained(partitions)

        def on_revoke(consumer: Any, partitions: Any) -> None:
            self.lost(partitions)
            if not cooperative:
                consumer.unassign()

        consumer.subscribe(self.topics, on_assign=on_assign, on_revoke=on_revoke, on_lost=on_revoke)
        try:
            while not self.stopping.is_set():
                message = consumer.poll(POLL_S)
                if message is None:
                    continue
                if message.error() is not None:
                    self.failed = str(message.error())
                    if message.error().fatal():
                        return
                    continue
                with self.lock:
                    self.seen.append(
                        Record(
                            message.partition(),
                            message.key(),
                            message.value(),
                            offset=message.offset(),
                        )
                    )
        finally:
            consumer.close()


class KafkaPythonMember(ThreadMember):
    def __init__(self, bootstrap: str, group: str, topics: list[str], **config: Any) -> None:
        self.config = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 300,
            "session_timeout_ms": 10_000,
            **config,
        }
        self.topics = topics
        super().__init__()

    def run(self) -> None:
        from kafka import ConsumerRebalanceListener, KafkaConsumer

        member = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, assigned: Any) -> None:
                member.gained(assigned)

            def on_partitions_revoked(self, revoked: Any) -> None:
                member.lost(revoked)

        consumer = KafkaConsumer(**self.config)
        # A leader whose first metadata arrives between its JoinGroup and its SyncGroup drops the
        # assignment and stays without one; so the metadata comes first.
        for topic in self.topics:
            consumer.partitions_for_topic(topic)
        consumer.subscribe(topics=self.topics, listener=Listener())
        try:
            while not self.stopping.is_set():
                for batch in consumer.poll(timeout_ms=int(POLL_S * 1000)).values():
                    with self.lock:
                        self.seen += [
                            Record(r.partition, r.key, r.value, offset=r.offset) for r in batch
                        ]
        finally:
            consumer.close()


class AioKafkaMember(ThreadMember):
    def __init__(self, bootstrap: str, group: str, topics: list[str], **config: Any) -> None:
        self.config = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 300,
            "session_timeout_ms": 10_000,
            **config,
        }
        self.topics = topics
        super().__init__()

    def run(self) -> None:
        asyncio.run(self.main())

    async def main(self) -> None:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        member = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, assigned: Any) -> None:
                member.gained(assigned)

            def on_partitions_revoked(self, revoked: Any) -> None:
                member.lost(revoked)

        self.config.setdefault("partition_assignment_strategy", (RangePartitionAssignor,))
        consumer = AIOKafkaConsumer(**self.config)
        consumer.subscribe(topics=self.topics, listener=Listener())
        await consumer.start()
        try:
            while not self.stopping.is_set():
                found = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
                for batch in found.values():
                    with self.lock:
                        self.seen += [
                            Record(r.partition, r.key, r.value, offset=r.offset) for r in batch
                        ]
        finally:
            await consumer.stop()


class BarnabasMember(ThreadMember):
    """Our own consumer. Which partitions it lost and which were taken from it are told apart."""

    def __init__(self, bootstrap: str, group: str, topics: list[str], **config: Any) -> None:
        self.config = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 300,
            "session_timeout_ms": 10_000,
            "metadata_max_age_ms": 500,
            "partition_assignment_strategy": "range",
            **config,
        }
        self.topics = topics
        super().__init__()

    def on_partitions_assigned(self, partitions: Any) -> None:
        self.gained(TopicPartition(*partition) for partition in partitions)

    def on_partitions_revoked(self, partitions: Any) -> None:
        self.lost(TopicPartition(*partition) for partition in partitions)

    def see(self, records: Any) -> None:
        with self.lock:
            self.seen += [Record(r.partition, r.key, r.value, offset=r.offset) for r in records]

    def run(self) -> None:
        from barnabas.client.consumer import Consumer

        consumer = Consumer(self.config)
        consumer.subscribe(self.topics, listener=self)
        try:
            while not self.stopping.is_set():
                self.see(consumer.poll(POLL_S))
        finally:
            consumer.close()


class AsyncBarnabasMember(BarnabasMember):
    def run(self) -> None:
        asyncio.run(self.main())

    async def main(self) -> None:
        from barnabas.client.consumer import AsyncConsumer

        consumer = AsyncConsumer(self.config)
        consumer.subscribe(self.topics, listener=self)
        try:
            while not self.stopping.is_set():
                self.see(await consumer.poll(POLL_S))
        finally:
            await consumer.close()


class RemoteMember(Member):
    """A member in another runtime, asked for its state."""

    def __init__(self) -> None:
        super().__init__()
        self.id = str(uuid.uuid4())
        self.last: dict[str, Any] = {}

    def call(self, operation: str, **fields: Any) -> Any:
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        if not self.stopping.is_set():
            self.last = self.call("member_state", member=self.id)
        return self.last

    def assigned(self) -> set[str]:
        return set(self.state()["assigned"])

    def records(self) -> list[Record]:
        return [from_json(fields) for fields in self.state()["records"]]

    def rebalances(self) -> int:
        return int(self.state()["rebalances"])

    def failure(self) -> str | None:
        found = self.state()["failure"]
        return None if found is None else str(found)

    def stop(self) -> None:
        self.state()
        self.stopping.set()
        self.call("member_stop", member=self.id)


class JavaMember(RemoteMember):
    def __init__(self, bootstrap: str, group: str, topics: list[str], **config: Any) -> None:
        super().__init__()
        settings = {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": "300",
            "session.timeout.ms": "10000",
            "metadata.max.age.ms": "500",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
            **{key.replace("_", "."): str(value) for key, value in config.items()},
        }
        self.call(
            "member_start", member=self.id, bootstrap=bootstrap, topics=topics, config=settings
        )

    def call(self, operation: str, **fields: Any) -> Any:
        return jvm.shared().call(operation, **fields)


class KafkaJsMember(RemoteMember):
    def __init__(self, bootstrap: str, group: str, topics: list[str]) -> None:
        super().__init__()
        self.call("member_start", member=self.id, bootstrap=bootstrap, topics=topics, group=group)

    def call(self, operation: str, **fields: Any) -> Any:
        return node_process.shared().call(operation, **fields)


MEMBERS: dict[str, type[Any]] = {
    "confluent": ConfluentMember,
    "aiokafka": AioKafkaMember,
    "kafka_python": KafkaPythonMember,
    "kafkajs": KafkaJsMember,
    "java": JavaMember,
}
