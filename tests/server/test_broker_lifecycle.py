"""A broker registers, catches up, serves, is fenced, and leaves, against a controller that is told
what to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.config.broker import BrokerConfig
from barnabas.metadata.image import Listener
from barnabas.raft.errors import StorageError
from barnabas.server.broker_lifecycle import BrokerLifecycle
from barnabas.server.real import SystemClock
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tests.server.serving import DEADLINE_S, on_loop

Answer = BrokerHeartbeatResponse | ApiError


class Controller:
    """Gives the answers of its lists in turn, the last one ever after."""

    def __init__(self) -> None:
        self.broker_epoch = -1
        self.registrations: list[int | ApiError] = []
        self.heartbeats: list[Answer] = []
        self.registered: list[BrokerRegistrationRequest] = []
        self.beaten: list[BrokerHeartbeatRequest] = []

    async def register_broker(self, request: Any, *, timeout_ms: int) -> Any:
        self.registered.append(request)
        answer = _next(self.registrations)
        if isinstance(answer, ApiError):
            raise answer
        return BrokerRegistrationResponse(error_code=answer, broker_epoch=40)

    async def heartbeat_broker(self, request: Any, *, timeout_ms: int) -> Any:
        self.beaten.append(request)
        answer = _next(self.heartbeats)
        if isinstance(answer, ApiError):
            raise answer
        return answer


def _next(answers: list[Any]) -> Any:
    return answers.pop(0) if len(answers) > 1 else answers[0]


def fenced(**more: bool) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(is_fenced=True, **more)


SERVING = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)


class Broker:
    def __init__(self, **settings: str) -> None:
        self.controller = Controller()
        self.offset = 40
        self.failed: list[bytes] = []
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.lifecycle = BrokerLifecycle(
            config=BrokerConfig({"broker.heartbeat.interval.ms": "5", "node.id": "3", **given}),
            clock=SystemClock(),
            controller=self.controller,  # type: ignore[arg-type]
            incarnation_id=bytes(range(16)),
            offset=lambda: self.offset,
            offline_dirs=lambda: self.failed,
        )

    async def register(self) -> int:
        return await self.lifecycle.register("c", [Listener("P", "h", 1, 0)], [b"b" * 16], 7)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                await asyncio.sleep(0.001)


@on_loop
async def test_registration_is_tried_until_it_is_accepted() -> None:
    broker = Broker()
    broker.controller.registrations = [
        ApiError(ErrorCode.REQUEST_TIMED_OUT),
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        0,
    ]
    assert await broker.register() == 40
    first, *_, last = broker.controller.registered
    assert first == last
    assert (last.broker_id, last.cluster_id, last.previous_broker_epoch) == (3, "c", 7)
    assert last.log_dirs == [b"b" * 16]
    assert broker.controller.broker_epoch == 40


@pytest.mark.parametrize("code", [ErrorCode.INCONSISTENT_CLUSTER_ID])
@on_loop
async def test_a_registration_without_hope_ends_the_start(code: ErrorCode) -> None:
    broker = Broker()
    broker.controller.registrations = [int(code)]
    with pytest.raises(StorageError, match=code.name):
        await broker.register()
    assert len(broker.controller.registered) == 1


@on_loop
async def test_a_registration_that_takes_too_long_says_why() -> None:
    broker = Broker(initial_broker_registration_timeout_ms="50")
    broker.controller.registrations = [int(ErrorCode.DUPLICATE_BROKER_REGISTRATION)]
    with pytest.raises(StorageError, match="DUPLICATE_BROKER_REGISTRATION"):
        await broker.register()


@on_loop
async def test_heartbeats_go_on_through_failures_and_fencing() -> None:
    broker = Broker()
    broker.controller.registrations = [0]
    broker.controller.heartbeats = [
        fenced(),
        BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        ApiError(ErrorCode.REQUEST_TIMED_OUT),
        SERVING,
    ]
    await broker.register()
    await broker.lifecycle.unfence()
    assert not broker.lifecycle.is_fenced
    assert [beat.want_fence for beat in broker.controller.beaten] == [False] * 4
    assert broker.controller.beaten[0].current_metadata_offset == 40
    broker.controller.heartbeats = [fenced()]
    broker.lifecycle.start_heartbeats()
    await broker.until(lambda: broker.lifecycle.is_fenced)
    broker.controller.heartbeats = [SERVING]
    broker.failed = [b"x" * 16]
    await broker.until(lambda: not broker.lifecycle.is_fenced)
    await broker.until(lambda: broker.controller.beaten[-1].offline_log_dirs == [b"x" * 16])
    await broker.lifecycle.stop()


@on_loop
async def test_leaving_waits_for_the_permission() -> None:
    broker = Broker()
    broker.controller.registrations = [0]
    broker.controller.heartbeats = [SERVING]
    await broker.register()
    await broker.lifecycle.unfence()
    broker.lifecycle.start_heartbeats()
    broker.controller.heartbeats = [SERVING, fenced(should_shut_down=True)]
    await broker.lifecycle.shut_down()
    assert [beat.want_shut_down for beat in broker.controller.beaten[-2:]] == [True, True]


@on_loop
async def test_leaving_without_a_controller_does_not_wait_for_one() -> None:
    broker = Broker()
    broker.controller.registrations = [0]
    await broker.register()
    broker.controller.heartbeats = [ApiError(ErrorCode.REQUEST_TIMED_OUT)]
    await broker.lifecycle.shut_down()
    assert len(broker.controller.beaten) == 1
