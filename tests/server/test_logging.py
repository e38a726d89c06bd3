"""Log lines: one each, coloured only for people, never forged."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.api import DEFERRED
from barnabas.server.logging import LEVEL_VARIABLE, level_number, set_up_logging
from barnabas.server.request_log import RequestLog
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.server.serving import api, frame, on_loop, serving


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger("barnabas")
    handlers, level, propagate = list(root.handlers), root.level, root.propagate
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    root.propagate = propagate


def test_one_line_each() -> None:
    stream = io.StringIO()
    set_up_logging(stream=stream, environment={})
    set_up_logging(stream=stream, environment={})
    logger = logging.getLogger("barnabas.test")
    logger.info("hello %s", "world")
    logger.debug("not shown")
    logger.warning("two\nlines\x1b[31m and \u2028 more")
    first, second = stream.getvalue().splitlines()
    assert first.endswith(" INFO barnabas.test: hello world")
    assert second.endswith(r" WARNING barnabas.test: two\nlines\x1b[31m and \u2028 more")


def test_tracebacks_keep_their_lines() -> None:
    stream = io.StringIO()
    set_up_logging(stream=stream, environment={})
    try:
        raise ValueError("bad")
    except ValueError:
        logging.getLogger("barnabas.test").exception("failed")
    assert "Traceback" in stream.getvalue()
    assert stream.getvalue().rstrip().endswith("ValueError: bad")


def test_colours_are_for_terminals_that_want_them() -> None:
    for stream, environment, coloured in (
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (io.StringIO(), {}, False),
    ):
        set_up_logging(stream=stream, environment=environment)
        logging.getLogger("barnabas.test").warning("look")
        assert ("\033[33m" in stream.getvalue()) == coloured


@pytest.mark.parametrize(
    ("level", "environment", "expected"),
    [
        (None, {}, logging.INFO),
        (None, {LEVEL_VARIABLE: "debug"}, logging.DEBUG),
        ("error", {LEVEL_VARIABLE: "debug"}, logging.ERROR),
    ],
)
def test_levels(level: str | None, environment: dict[str, str], expected: int) -> None:
    set_up_logging(level, stream=io.StringIO(), environment=environment)
    assert logging.getLogger("barnabas").level == expected


def test_a_wrong_level_names_the_right_ones() -> None:
    with pytest.raises(ValueError, match="'loud' is no log level; use one of DEBUG, INFO"):
        level_number("loud")


@on_loop
async def test_the_request_log(caplog: pytest.LogCaptureFixture) -> None:
    contexts: list[Any] = []

    def handle(node: Any, context: Any, request: Any) -> object:
        if request.generation_id == 2:
            contexts.append(context)
            return DEFERRED
        return HeartbeatResponse()

    async with serving(api(ApiKey.HEARTBEAT, handle)) as served:
        peer = await served.connect()
        first = frame(HeartbeatRequest(generation_id=1), 4, 1, "a client")
        peer.send(first)
        await peer.response(ApiKey.HEARTBEAT, 4)
        assert caplog.text == ""
        served.pipeline.request_log = RequestLog()
        with caplog.at_level(logging.INFO, "barnabas.requests"):
            peer.send(first + frame(HeartbeatRequest(generation_id=2), 4, 2, "x"))
            await peer.response(ApiKey.HEARTBEAT, 4)
            await served.until(lambda: bool(contexts))
            contexts[0].respond(HeartbeatResponse())
            await peer.response(ApiKey.HEARTBEAT, 4)
        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) == 2
        assert lines[0].startswith("api=Heartbeat version=4 correlation_id=1 client_id='a client' ")
        assert f"request_bytes={len(first)} " in lines[0]
        assert "client_id=x " in lines[1]
        assert "total_ms=" in lines[1]
