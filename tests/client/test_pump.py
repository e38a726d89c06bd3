"""Several threads on one client: who waits turns the reactor, and nobody waits in vain."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from typing import Any

import pytest

from barnabas.client.admin import Admin
from barnabas.client.errors import ClosedError, NoBrokerReachable
from barnabas.client.pump import ALWAYS, NEVER, Pump
from tests.client.fake_broker import FakeBroker


def test_many_threads_run_coroutines_at_once() -> None:
    pump = Pump()
    reactor = pump.reactor
    results: list[int] = []

    async def work(number: int) -> int:
        for _ in range(20):
            await reactor.sleep(0.0005)
        return number

    threads = [
        threading.Thread(target=lambda n=n: results.append(pump.run(work(n)))) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(results) == list(range(8))
    pump.close()


def test_a_caller_is_served_while_another_waits_for_ever() -> None:
    pump = Pump()
    never = pump.reactor.future()

    async def wait() -> Any:
        return await never

    async def quick() -> str:
        await pump.reactor.sleep(0.001)
        return "quick"

    failed: list[BaseException] = []

    def wait_for_ever() -> None:
        try:
            pump.run(wait())
        except ClosedError as error:
            failed.append(error)

    thread = threading.Thread(target=wait_for_ever)
    thread.start()
    assert [pump.run(quick()) for _ in range(50)] == ["quick"] * 50
    pump.close()
    thread.join(10)
    assert len(failed) == 1


def test_the_background_turns_when_it_is_due_and_steps_back_for_callers() -> None:
    pump = Pump()
    due = NEVER
    rang = threading.Event()
    pump.start("test", lambda: due)
    with pump.lock:
        pump.reactor.call_at(pump.reactor.now() + 0.005, rang.set)
    assert not rang.wait(0.05)
    with pump.lock:
        due = ALWAYS
        pump.nudge()
    assert rang.wait(10)

    async def nothing() -> str:
        await pump.reactor.sleep(0.001)
        return "mine"

    assert [pump.run(nothing()) for _ in range(20)] == ["mine"] * 20
    rang.clear()
    with pump.lock:
        pump.reactor.call_at(pump.reactor.now() + 0.005, rang.set)
    assert rang.wait(10)
    pump.close()


def test_a_function_of_the_user_may_call_the_client_again() -> None:
    pump = Pump()

    async def inner() -> str:
        await pump.reactor.sleep(0.001)
        return "inner"

    async def outer() -> Any:
        return await pump.reactor.call_user(lambda: pump.run(inner()))

    assert pump.run(outer()) == "inner"
    pump.close()


def test_a_function_of_the_user_runs_in_the_thread_that_waits_and_between_turns() -> None:
    """Also when the coroutine gets there in the middle of a turn of the background thread."""
    pump = Pump()
    pump.start("background")
    seen: list[threading.Thread] = []

    async def inner() -> str:
        await pump.reactor.sleep(0.001)
        return "inner"

    def function() -> str:
        seen.append(threading.current_thread())
        return pump.run(inner())

    async def outer() -> Any:
        for _ in range(20):
            await pump.reactor.sleep(0.001)
            assert await pump.reactor.call_user(function) == "inner"
        return "outer"

    assert pump.run(outer()) == "outer"
    assert set(seen) == {threading.current_thread()}
    pump.close()


def test_what_a_function_of_the_user_raises_comes_out() -> None:
    pump = Pump()

    def function() -> None:
        raise ValueError("the function's")

    async def outer() -> None:
        await pump.reactor.sleep(0.001)
        await pump.reactor.call_user(function)

    with pytest.raises(ValueError, match="the function's"):
        pump.run(outer())
    pump.close()


def test_calls_after_the_end_are_refused() -> None:
    pump = Pump()
    pump.close()
    pump.close()

    async def nothing() -> None: ...

    with pytest.raises(ClosedError):
        pump.run(nothing())


def test_ctrl_c_ends_a_call_at_once() -> None:
    with FakeBroker() as broker, Admin(bootstrap_servers=broker.address) as admin:
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            admin.list_topics()
        assert time.monotonic() - started < 10


def test_a_plain_client_works_where_an_asyncio_loop_runs() -> None:
    async def main() -> None:
        with (
            FakeBroker(lambda *_: None) as broker,
            Admin(bootstrap_servers=broker.address) as admin,
            pytest.raises(NoBrokerReachable),
        ):
            admin.list_topics()

    asyncio.run(main())


def test_closing_from_another_thread_ends_a_call() -> None:
    with FakeBroker() as broker:
        admin = Admin(bootstrap_servers=broker.address)
        threading.Timer(0.05, admin.close).start()
        with pytest.raises(ClosedError):
            admin.list_topics()
