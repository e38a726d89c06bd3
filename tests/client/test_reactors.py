"""The two reactors keep the same promises; each test runs on both."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from barnabas.client.looping import AsyncioReactor
from barnabas.client.pump import Pump
from barnabas.client.reactor import Reactor
from barnabas.client.selecting import Cancelled

Run = Callable[[Callable[[Any], Coroutine[Any, Any, Any]]], Any]


def on_asyncio(work: Callable[[Reactor], Coroutine[Any, Any, Any]]) -> Any:
    async def main() -> Any:
        return await work(AsyncioReactor())

    return asyncio.run(main())


def on_pump(work: Callable[[Reactor], Coroutine[Any, Any, Any]]) -> Any:
    pump = Pump()
    try:
        return pump.run(work(pump.reactor))
    finally:
        pump.close()


@pytest.fixture(params=[on_asyncio, on_pump], ids=["asyncio", "select"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.param
    return found


def test_timers_come_in_the_order_of_their_times(run: Run) -> None:
    async def work(reactor: Reactor) -> list[str]:
        seen: list[str] = []
        now = reactor.now()
        reactor.call_at(now + 0.02, lambda: seen.append("late"))
        reactor.call_at(now + 0.01, lambda: seen.append("early"))
        reactor.call_at(now + 0.015, lambda: seen.append("never")).cancel()
        reactor.call_soon(lambda: seen.append("soon"))
        seen.append("now")
        await reactor.sleep(0.03)
        return seen

    assert run(work) == ["now", "soon", "early", "late"]


def test_coroutines_run_side_by_side(run: Run) -> None:
    async def work(reactor: Reactor) -> list[str]:
        seen: list[str] = []
        door = reactor.future()

        async def waiting() -> str:
            seen.append("waits")
            seen.append(await door)
            return "done"

        task = reactor.spawn(waiting())
        assert not task.done()
        await reactor.sleep(0)
        door.set_result("open")
        seen.append(await task)
        return seen

    assert run(work) == ["waits", "open", "done"]


def test_an_error_reaches_who_awaits(run: Run) -> None:
    async def work(reactor: Reactor) -> str:
        async def failing() -> None:
            await reactor.sleep(0)
            raise ValueError("no")

        try:
            await reactor.spawn(failing())
        except ValueError as error:
            return str(error)
        return "nothing"

    assert run(work) == "no"


def test_a_cancelled_coroutine_cleans_up(run: Run) -> None:
    async def work(reactor: Reactor) -> list[str]:
        seen: list[str] = []

        async def waiting() -> None:
            try:
                await reactor.sleep(60)
            finally:
                seen.append("cleaned")

        task = reactor.spawn(waiting())
        await reactor.sleep(0.001)
        task.cancel()
        await reactor.sleep(0.001)
        assert task.done()
        with pytest.raises((asyncio.CancelledError, Cancelled)):
            task.result()
        return seen

    assert run(work) == ["cleaned"]


def test_functions_of_the_user_are_called_in_order(run: Run) -> None:
    async def work(reactor: Reactor) -> list[Any]:
        seen: list[Any] = []
        reactor.call_outside(seen.append, 1)
        reactor.call_outside(seen.append, 2)
        seen.append(await reactor.call_user(lambda x: x + 1, 40))
        await reactor.sleep(0.001)
        return seen

    assert run(work) == [41, 1, 2]


def connect(reactor: Reactor, host: str, port: int, timeout_s: float = 5.0) -> Any:
    future = reactor.future()
    reactor.connect(host, port, timeout_s, lambda stream, error: future.set_result((stream, error)))
    return future


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_connection_carries_bytes_both_ways(run: Run, host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        async def work(reactor: Reactor) -> bytes:
            stream, error = await connect(reactor, host, server.getsockname()[1])
            assert error is None
            peer, _ = server.accept()
            with peer:
                assert stream.send(b"ask") == 3
                assert peer.recv(3) == b"ask"
                readable = reactor.future()
                stream.on_readable(lambda: readable.done() or readable.set_result(None))
                peer.sendall(b"answer")
                await readable
                buffer = bytearray(16)
                count = stream.recv_into(memoryview(buffer))
                stream.close()
                stream.close()
                return bytes(buffer[:count])

        assert run(work) == b"answer"


def test_a_refused_connection_and_an_unknown_name(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    async def work(reactor: Reactor) -> None:
        stream, error = await connect(reactor, "127.0.0.1", port)
        assert stream is None
        assert isinstance(error, ConnectionRefusedError)
        stream, error = await connect(reactor, "no-such-name.invalid", port)
        assert stream is None
        assert isinstance(error, socket.gaierror)

    run(work)


def test_a_connection_that_is_not_accepted_takes_its_time_and_no_more(run: Run) -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        place = full.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(place)

        async def work(reactor: Reactor) -> None:
            stream, error = await connect(reactor, *place, timeout_s=0.05)
            assert stream is None
            assert isinstance(error, TimeoutError)

        run(work)
        for filler in fillers:
            filler.close()


def test_a_cancelled_attempt_says_nothing(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        async def work(reactor: Reactor) -> list[Any]:
            told: list[Any] = []
            attempt = reactor.connect(
                "127.0.0.1", server.getsockname()[1], 5.0, lambda *it: told.append(it)
            )
            attempt.cancel()
            await reactor.sleep(0.01)
            return told

        assert run(work) == []


def test_a_failing_callback_does_not_end_the_turn(run: Run, caplog: Any) -> None:
    async def work(reactor: Reactor) -> list[str]:
        seen: list[str] = []

        def fail() -> None:
            raise ValueError("broken callback")

        reactor.call_soon(fail)
        reactor.call_soon(lambda: seen.append("after"))
        await reactor.sleep(0.001)
        return seen

    assert run(work) == ["after"]
    assert "broken callback" in caplog.text


def test_another_thread_wakes_a_turn_with_a_timer() -> None:
    """A timer that is set while another thread waits for something later is not slept through."""
    pump = Pump()
    begun, rang = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        pump.wait(rang.is_set, pump.reactor.now() + 30)

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait(10)
    with pump.lock:
        pump.reactor.call_at(pump.reactor.now() + 0.01, rang.set)
    assert rang.wait(10)
    thread.join(10)
    assert not thread.is_alive()
    pump.close()
