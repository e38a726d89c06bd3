"""Ctrl-C in every call that waits, clients that nobody closed, forked processes, and no leaks.

The broker here accepts connections and says nothing, so that every call waits; a real one is used where
there must be something to lose.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from barnabas.client.admin import Admin, AsyncAdmin
from barnabas.client.async_producer import AsyncProducer
from barnabas.client.consumer import AsyncConsumer, Consumer
from barnabas.client.errors import ClosedError
from barnabas.client.producer import Producer
from barnabas.testing import Cluster

INTERRUPT_AFTER_S = 0.1
AT_ONCE_S = 5.0
CYCLES = int(os.environ.get("BARNABAS_CLIENT_CYCLES", "100"))
CLIENTS_THREADS = ("barnabas-producer", "barnabas-consumer", "barnabas-closing")


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of something that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster() as cluster:
        yield cluster.bootstrap_servers


class Interrupting:
    """Sends this process a SIGINT soon, as Ctrl-C does; the block must end by it, and at once."""

    def __enter__(self) -> None:
        self.began = time.monotonic()
        self.timer = threading.Timer(INTERRUPT_AFTER_S, os.kill, (os.getpid(), signal.SIGINT))
        self.timer.start()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.timer.join()
        assert kind is KeyboardInterrupt, error
        assert time.monotonic() < self.began + AT_ONCE_S
        return True


def group_of(consumer: Any) -> Any:
    consumer.subscribe(["t"])
    return consumer


def assigned(consumer: Any) -> Any:
    consumer.assign([("t", 0)])
    return consumer


PLACE = ("t", 0)
CONSUMER_CALLS: dict[str, Callable[[Any], Any]] = {
    "poll": lambda c: assigned(c).poll(60),
    "poll in a group": lambda c: group_of(c).poll(60),
    "position": lambda c: assigned(c).position(PLACE),
    "committed": lambda c: c.committed([PLACE]),
    "commit": lambda c: c.commit({PLACE: 1}),
    "end_offsets": lambda c: c.end_offsets([PLACE]),
    "beginning_offsets": lambda c: c.beginning_offsets([PLACE]),
    "offsets_for_times": lambda c: c.offsets_for_times({PLACE: 1}),
    "partitions_for": lambda c: c.partitions_for("t"),
    "topics": lambda c: c.topics(),
}
PRODUCER_CALLS: dict[str, Callable[[Any], Any]] = {
    "send": lambda p: p.send("t", b"x"),
    "partitions_for": lambda p: p.partitions_for("t"),
}
ADMIN_CALLS: dict[str, Callable[[Any], Any]] = {
    "list_topics": lambda a: a.list_topics(),
    "describe_cluster": lambda a: a.describe_cluster(),
    "delete_groups": lambda a: a.delete_groups(["g"]),
}


@pytest.mark.parametrize("call", CONSUMER_CALLS)
def test_ctrl_c_ends_a_call_of_a_consumer(silent: str, call: str) -> None:
    consumer = Consumer(bootstrap_servers=silent, group_id="g")
    with Interrupting():
        CONSUMER_CALLS[call](consumer)
    consumer.close(timeout=0.2)


def test_ctrl_c_ends_the_iteration_of_a_consumer(silent: str) -> None:
    consumer = assigned(Consumer(bootstrap_servers=silent))
    with Interrupting():
        next(consumer)
    consumer.close()


@pytest.mark.parametrize("call", PRODUCER_CALLS)
def test_ctrl_c_ends_a_call_of_a_producer(silent: str, call: str) -> None:
    producer = Producer(bootstrap_servers=silent)
    with Interrupting():
        PRODUCER_CALLS[call](producer)
    producer.close(timeout=0)


@pytest.mark.parametrize("call", ADMIN_CALLS)
def test_ctrl_c_ends_a_call_of_an_admin(silent: str, call: str) -> None:
    with Admin(bootstrap_servers=silent) as admin, Interrupting():
        ADMIN_CALLS[call](admin)


@pytest.mark.parametrize("wait", ["result", "flush", "close"])
def test_ctrl_c_ends_the_wait_for_acknowledgements(bootstrap: str, wait: str) -> None:
    producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000)
    future = producer.send("acknowledged", b"x")
    waits = {
        # What waits hurries the batch, so the answer must be kept away.
        "result": future.result,
        "flush": producer.flush,
        "close": producer.close,
    }
    route = producer.cluster.send
    producer.cluster.send = lambda *_args, **_more: None  # type: ignore[method-assign]
    with Interrupting():
        waits[wait]()
    producer.cluster.send = route  # type: ignore[method-assign]
    producer.close(timeout=0)


ASYNC_CALLS: dict[str, Callable[[str], Awaitable[Any]]] = {}


def on_loop(kind: Any, call: Callable[[Any], Any], **options: Any) -> Callable[[str], Any]:
    async def run(bootstrap: str) -> None:
        async with kind(bootstrap_servers=bootstrap, **options) as client:
            await call(client)

    return run


for _name, _call in CONSUMER_CALLS.items():
    ASYNC_CALLS[f"consumer {_name}"] = on_loop(AsyncConsumer, _call, group_id="g")
for _name, _call in PRODUCER_CALLS.items():
    ASYNC_CALLS[f"producer {_name}"] = on_loop(AsyncProducer, _call)
for _name, _call in ADMIN_CALLS.items():
    ASYNC_CALLS[f"admin {_name}"] = on_loop(AsyncAdmin, _call)


@pytest.mark.parametrize("call", ASYNC_CALLS)
def test_ctrl_c_ends_a_call_on_a_loop(silent: str, call: str) -> None:
    with Interrupting():
        asyncio.run(ASYNC_CALLS[call](silent))  # type: ignore[arg-type]


def test_plain_clients_work_where_a_loop_runs(bootstrap: str) -> None:
    """As in a notebook."""

    async def cell() -> list[bytes]:
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send("notebook", b"x").result(20)
        with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([("notebook", 0)])
            found = [record.value for record in consumer.poll(20)]
        with Admin(bootstrap_servers=bootstrap) as admin:
            assert "notebook" in [topic.name for topic in admin.list_topics()]
        return found

    assert asyncio.run(cell()) == [b"x"]


# -- nobody closed it


def clients_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name in CLIENTS_THREADS]


def open_files() -> int:
    """Sockets and selectors; the broker in this process opens other files as it likes."""
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            place = os.readlink(f"/proc/self/fd/{descriptor}")
            found += place.startswith(("socket:", "anon_inode:[eventpoll]"))
    return found


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + AT_ONCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def use_producer(bootstrap: str) -> None:
    Producer(bootstrap_servers=bootstrap).send("unclosed", b"x").result(20)


def use_member(bootstrap: str) -> None:
    consumer = Consumer(
        bootstrap_servers=bootstrap, group_id="unclosed", auto_offset_reset="earliest"
    )
    consumer.subscribe(["unclosed"])
    while not consumer.assignment():
        consumer.poll(0.1)


def use_reader(bootstrap: str) -> None:
    consumer = Consumer(bootstrap_servers=bootstrap)
    consumer.assign([("unclosed", 0)])
    consumer.poll(0.05)


def use_admin(bootstrap: str) -> None:
    Admin(bootstrap_servers=bootstrap).list_topics()


def use_async_producer(bootstrap: str) -> None:
    async def run() -> None:
        await AsyncProducer(bootstrap_servers=bootstrap).send_and_wait("unclosed", b"x")
        gc.collect()
        await asyncio.sleep(0.05)

    asyncio.run(run())


def use_async_admin(bootstrap: str) -> None:
    async def run() -> None:
        await AsyncAdmin(bootstrap_servers=bootstrap).list_topics()

    asyncio.run(run())


def use_async_consumer(bootstrap: str) -> None:
    async def run() -> None:
        await AsyncConsumer(bootstrap_servers=bootstrap).topics()

    asyncio.run(run())


@pytest.mark.parametrize(
    "use",
    [
        use_producer,
        use_member,
        use_reader,
        use_admin,
        use_async_producer,
        use_async_admin,
        use_async_consumer,
    ],
)
def test_a_client_that_was_not_closed_warns_and_is_gone(
    bootstrap: str, use: Callable[[str], None]
) -> None:
    with Producer(bootstrap_servers=bootstrap) as first:
        first.send("unclosed", b"x").result(20)
    gc.collect()
    files = open_files()
    assert clients_threads() == []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use(bootstrap)
        gc.collect()
        until(lambda: not clients_threads() and gc.collect() >= 0 and open_files() <= files)
    told = [str(w.message) for w in caught if "was not closed" in str(w.message)]
    assert len(told) == 1
    assert all(issubclass(w.category, ResourceWarning) for w in caught)


def test_what_an_unclosed_producer_accepted_is_sent(bootstrap: str) -> None:
    def use() -> None:
        producer = Producer(bootstrap_servers=bootstrap, linger_ms=60_000)
        for i in range(10):
            producer.send("forgotten", b"%d" % i)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        use()
        gc.collect()
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("forgotten", 0)])
        found: list[Any] = []
        until(lambda: len(found.__iadd__(consumer.poll(0.2))) == 10)
    assert [record.value for record in found] == [b"%d" % i for i in range(10)]


def test_a_future_outlives_its_producer(bootstrap: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        future = Producer(bootstrap_servers=bootstrap, linger_ms=50).send("outlived", b"x")
        gc.collect()
        assert future.result(20).offset >= 0


def test_many_clients_leave_nothing(bootstrap: str) -> None:
    def cycle() -> None:
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send("cycles", b"x").result(20)
        with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([("cycles", 0)])
            assert consumer.poll(20, max_records=1)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.describe_cluster()

    cycle()
    gc.collect()
    files, threads, objects = open_files(), threading.active_count(), len(gc.get_objects())
    for _ in range(CYCLES):
        cycle()
    gc.collect()
    assert open_files() <= files
    assert threading.active_count() <= threads
    assert len(gc.get_objects()) < objects + 20 * CYCLES


def test_many_async_clients_leave_nothing(bootstrap: str) -> None:
    async def cycle() -> None:
        async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait("cycles", b"x")
        async with AsyncConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([("cycles", 0)])
            assert await consumer.poll(20, max_records=1)
        async with AsyncAdmin(bootstrap_servers=bootstrap) as admin:
            await admin.describe_cluster()

    async def run() -> None:
        await cycle()
        gc.collect()
        files, tasks, objects = open_files(), len(asyncio.all_tasks()), len(gc.get_objects())
        for _ in range(CYCLES):
            await cycle()
        gc.collect()
        assert open_files() <= files
        assert len(asyncio.all_tasks()) <= tasks
        assert len(gc.get_objects()) < objects + 20 * CYCLES

    asyncio.run(run())


# -- forked


def in_child(work: Callable[[], object]) -> None:
    """Runs `work` in a forked process; what it raises is told here."""
    reads, writes = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside threads
        child = os.fork()
    if child == 0:
        said = b""
        try:
            signal.alarm(20)
            work()
        except BaseException as error:
            said = repr(error).encode()
        finally:
            os.write(writes, said)
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        said = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert said == b""


def test_a_forked_process_is_told_to_make_its_own(bootstrap: str) -> None:
    producer = Producer(bootstrap_servers=bootstrap)
    future = producer.send("forked", b"before")
    future.result(20)
    waiting = producer.send("forked", b"on its way")
    consumer = Consumer(
        bootstrap_servers=bootstrap, group_id="forked", auto_offset_reset="earliest"
    )
    consumer.subscribe(["forked"])
    found: list[bytes] = []
    while not consumer.assignment():
        found += [record.value for record in consumer.poll(0.1)]
    admin = Admin(bootstrap_servers=bootstrap)
    admin.list_topics()

    def child() -> None:
        for call in (
            lambda: producer.send("forked", b"in the child"),
            lambda: producer.partitions_for("forked"),
            lambda: consumer.poll(1),
            consumer.commit,
            admin.list_topics,
        ):
            with pytest.raises(ClosedError, match="before this process was forked"):
                call()  # type: ignore[no-untyped-call]
        for client in (producer, consumer, admin):
            client.close()  # type: ignore[attr-defined]
        with Producer(bootstrap_servers=bootstrap) as own:
            own.send("forked", b"from the child").result(20)

    in_child(child)
    waiting.result(20)
    producer.send("forked", b"after").result(20)
    until(lambda: len(found.__iadd__(r.value for r in consumer.poll(0.2))) == 4)
    assert sorted(found) == [b"after", b"before", b"from the child", b"on its way"]
    consumer.commit()
    assert admin.list_topics()
    for client in (producer, consumer, admin):
        client.close()  # type: ignore[attr-defined]
