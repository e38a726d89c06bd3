"""What is served, what is refused, and what becomes of handlers that fail."""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import Any

import pytest

from barnabas.api import DEFERRED
from barnabas.server.channel import MAX_HEADER_TAGS
from barnabas.server.peers import BURST, LineLimit, recognise
from barnabas.server.route import MAX_PLAIN_REQUEST_BYTES
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.server.serving import api, frame, on_loop, serving


def beat(node: Any, context: Any, request: Any) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=request.generation_id)


def versions(node: Any, context: Any, request: Any) -> ApiVersionsResponse:
    return ApiVersionsResponse()


BEATING = api(ApiKey.HEARTBEAT, beat, versions=(1, 4))
VERSIONS = api(ApiKey.API_VERSIONS, versions)
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=5, member_id="m")


def raw(key: int, version: int, rest: bytes, correlation_id: int = 1) -> bytes:
    body = struct.pack(">hhi", key, version, correlation_id) + rest
    return struct.pack(">i", len(body)) + body


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "barnabas.peers"]


@on_loop
async def test_the_context_knows_the_request_and_the_connection() -> None:
    seen: list[Any] = []

    def handle(node: Any, context: Any, request: Any) -> HeartbeatResponse:
        seen.append((node, context, request))
        return HeartbeatResponse()

    async with serving(api(ApiKey.HEARTBEAT, handle), node="the node") as served:
        peer = await served.connect()
        peer.send(frame(HEARTBEAT, 4, 77, "a client ✓") + frame(HEARTBEAT, 0, 78, None))
        await peer.response(ApiKey.HEARTBEAT, 4)
        await peer.response(ApiKey.HEARTBEAT, 0)
        node, context, request = seen[0]
        assert node == "the node"
        assert request == HEARTBEAT
        assert (context.api_key, context.api_version) == (ApiKey.HEARTBEAT, 4)
        assert (context.correlation_id, context.client_id) == (77, "a client ✓")
        assert context.listener_name == "PLAINTEXT"
        assert context.local_address == ("127.0.0.1", served.port)
        assert context.client_address == peer.writer.get_extra_info("sockname")
        assert "Heartbeat v4" in repr(context)
        assert seen[1][1].client_id is None
        assert not context.disconnected


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
@on_loop
async def test_an_unknown_version_of_api_versions_is_answered_in_version_0(version: int) -> None:
    async with serving(VERSIONS) as served:
        peer = await served.connect()
        peer.send(raw(ApiKey.API_VERSIONS, version, b"\xff\xff whatever it holds", 9))
        correlation_id, response = await peer.response(ApiKey.API_VERSIONS, 0)
        assert correlation_id == 9
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(key.api_key, key.min_version, key.max_version) for key in response.api_keys] == [
            (ApiKey.API_VERSIONS, 0, 4)
        ]
        await peer.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)


@on_loop
async def test_api_versions_keeps_its_place_behind_requests_that_wait() -> None:
    contexts: list[Any] = []

    def handle(node: Any, context: Any, request: Any) -> object:
        contexts.append(context)
        return DEFERRED

    async with serving(VERSIONS, api(ApiKey.HEARTBEAT, handle)) as served:
        peer = await served.connect()
        peer.send(frame(HEARTBEAT, 4, 1) + raw(ApiKey.API_VERSIONS, 50, b"\xff\xff", 2))
        await served.until(lambda: len(contexts) == 1)
        await asyncio.sleep(0.005)
        contexts[0].respond(HeartbeatResponse())
        assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == 1
        assert (await peer.response(ApiKey.API_VERSIONS, 0))[0] == 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (raw(12, 0, b"\xff\xff"), "Heartbeat version 0 is not supported; versions 1 to 4 are"),
        (raw(12, 9, b"\xff\xff"), "Heartbeat version 9 is not supported"),
        (raw(12, -1, b"\xff\xff"), "Heartbeat version -1 is not supported"),
        (raw(0, 9, b"\xff\xff"), "Produce (API key 0, version 9) is not served here"),
        (raw(999, 3, b"\xff\xff"), "API key 999 (version 3) is unknown"),
        (raw(-7, 3, b"\xff\xff"), "API key -7 (version 3) is unknown"),
        (b"\0\0\0\x04abcd", "a request of 4 bytes has no room for its header"),
        (raw(12, 4, b"\xff\xfe"), "client id has a length of -2"),
        (raw(12, 4, b"\x7f\xff"), "client id has a length of 32767"),
        (raw(12, 4, b"\0\x02\xff\xff"), "Heartbeat version 4 cannot be read"),
        (raw(12, 4, b"\xff\xff"), "header ends within the tagged fields"),
        (raw(12, 4, b"\xff\xff\xff\xff\xff\xff\xff\x01"), "overlong varint"),
        (raw(12, 4, b"\xff\xff\xe8\x07"), "1000 tagged fields"),
        (raw(12, 4, b"\xff\xff\x01\x00\x20"), "a tagged field of its header has 32 bytes"),
        (raw(12, 4, b"\xff\xff\x00"), "Heartbeat version 4 cannot be read"),
        (frame(HEARTBEAT, 4, 1)[:-1], "Heartbeat version 4 cannot be read"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "speaks HTTP"),
        (b"POST /topics HTTP/1.1\r\n", "speaks HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "speaks TLS"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "speaks SSH"),
        (b"\x7f\xff\xff\xff garbage", "7f ff ff ff"),
    ],
)
@on_loop
async def test_what_is_no_request_closes_the_connection_with_one_line(
    data: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    if data.startswith(b"\0\0\0"):
        data = struct.pack(">i", len(data) - 4) + data[4:]
    async with serving(BEATING) as served:
        other, peer = await served.connect(), await served.connect()
        peer.send(frame(HEARTBEAT, 4, 3))
        await peer.response(ApiKey.HEARTBEAT, 4)
        peer.send(data)
        assert await peer.closed() == b""
        (line,) = warnings(caplog)
        assert said in line
        assert "127.0.0.1:{}".format(peer.writer.get_extra_info("sockname")[1]) in line
        assert "PLAINTEXT" in line
        assert (await other.ask(HEARTBEAT, 4)).throttle_time_ms == 5
        assert served.pipeline.peers.malformed_total == 1


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (2, "ended after 2 of the 4 bytes of a request's size"),
        (4, "ended after 0 of the"),
        (-1, "bytes of a request"),
    ],
)
@on_loop
async def test_a_request_that_is_cut_short_is_told(
    sent: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(BEATING) as served:
        peer = await served.connect()
        peer.send(frame(HEARTBEAT, 4, 3))
        await peer.response(ApiKey.HEARTBEAT, 4)
        peer.send(frame(HEARTBEAT, 4, 4)[:sent])
        peer.writer.write_eof()
        assert await peer.closed() == b""
        (line,) = warnings(caplog)
        assert said in line


@on_loop
async def test_tagged_fields_in_a_header_are_skipped() -> None:
    async with serving(BEATING) as served:
        peer = await served.connect()
        plain = frame(HEARTBEAT, 4, 8, "c")
        header_end = 4 + 8 + 2 + 1
        assert plain[header_end] == 0
        tags = bytes([MAX_HEADER_TAGS]) + b"".join(
            bytes([tag, 3]) + b"abc" for tag in range(MAX_HEADER_TAGS)
        )
        changed = plain[4:header_end] + tags + plain[header_end + 1 :]
        peer.send(struct.pack(">i", len(changed)) + changed)
        assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == 8


@on_loop
async def test_bytes_after_the_body_are_passed_over() -> None:
    async with serving(BEATING) as served:
        peer = await served.connect()
        longer = frame(HEARTBEAT, 4, 8, "c")[4:] + b"\0\1\2"
        peer.send(struct.pack(">i", len(longer)) + longer + frame(HEARTBEAT, 4, 9, "c"))
        assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == 8
        assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == 9


@on_loop
async def test_requests_without_records_are_limited_more_tightly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(BEATING) as served:
        peer = await served.connect()
        peer.send(raw(ApiKey.HEARTBEAT, 4, b"\xff\xff" + bytes(MAX_PLAIN_REQUEST_BYTES)))
        assert await peer.closed() == b""
        assert "too many without records" in caplog.text


# Handlers that fail


async def _failing(
    error: Exception, key: ApiKey = ApiKey.HEARTBEAT, *, cold: bool = False, **more: Any
) -> Any:
    def hot_handle(node: Any, context: Any, request: Any) -> object:
        raise error

    async def cold_handle(node: Any, context: Any, request: Any) -> object:
        raise error

    async with serving(api(key, cold_handle if cold else hot_handle, **more), VERSIONS) as served:
        peer, other = await served.connect(), await served.connect()
        request = HEARTBEAT if key == ApiKey.HEARTBEAT else MetadataRequest(topics=[])
        try:
            return await peer.ask(request, 4)
        except asyncio.IncompleteReadError:
            return "closed"
        finally:
            await other.ask(ApiVersionsRequest(), 0)
            assert sum(served.pipeline.metrics[key].errors.values()) == 1


@pytest.mark.parametrize("cold", [False, True])
@on_loop
async def test_an_api_error_becomes_the_error_code(cold: bool) -> None:
    response = await _failing(ApiError(ErrorCode.UNKNOWN_MEMBER_ID), cold=cold)
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("cold", [False, True])
@on_loop
async def test_anything_else_is_an_unknown_server_error(
    cold: bool, caplog: pytest.LogCaptureFixture
) -> None:
    response = await _failing(KeyError("broken"), cold=cold)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert "Heartbeat v4" in record.getMessage()
    assert record.exc_info


@on_loop
async def test_a_module_knows_its_own_error_response() -> None:
    def error_response(request: Any, code: ErrorCode, version: int) -> MetadataResponse:
        return MetadataResponse(cluster_id=f"{code.name} in version {version}")

    def handle(node: Any, context: Any, request: Any) -> object:
        raise ApiError(ErrorCode.NOT_CONTROLLER)

    async with serving(api(ApiKey.METADATA, handle, error_response=error_response)) as served:
        peer = await served.connect()
        response = await peer.ask(MetadataRequest(topics=[]), 4)
        assert response.cluster_id == "NOT_CONTROLLER in version 4"


@pytest.mark.parametrize("cold", [False, True])
@on_loop
async def test_a_response_without_an_error_code_closes_the_connection(cold: bool) -> None:
    assert await _failing(ValueError("x"), ApiKey.METADATA, cold=cold) == "closed"


@pytest.mark.parametrize("answer", [None, 5, "text", MetadataResponse()])
@on_loop
async def test_what_is_no_answer_closes_the_connection(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def cold(node: Any, context: Any, request: Any) -> object:
        return answer

    def hot(node: Any, context: Any, request: Any) -> object:
        return answer

    for handle in (hot, cold):
        async with serving(api(ApiKey.HEARTBEAT, handle)) as served:
            peer = await served.connect()
            peer.send(frame(HEARTBEAT, 4, 1))
            assert await peer.closed() == b""
    assert sum("is no answer" in record.getMessage() for record in caplog.records) == 2


@on_loop
async def test_an_answer_that_cannot_be_written_is_an_unknown_server_error() -> None:
    def handle(node: Any, context: Any, request: Any) -> HeartbeatResponse:
        return HeartbeatResponse(throttle_time_ms="much")  # type: ignore[arg-type]

    async with serving(api(ApiKey.HEARTBEAT, handle)) as served:
        peer = await served.connect()
        response = await peer.ask(HEARTBEAT, 4)
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@on_loop
async def test_draining_waits_for_tasks_and_then_cancels_them() -> None:
    events: list[str] = []

    async def cold(node: Any, context: Any, request: Any) -> HeartbeatResponse:
        try:
            await asyncio.sleep(0.02 if request.generation_id == 1 else 1000)
        except asyncio.CancelledError:
            events.append("cancelled")
            raise
        events.append("done")
        return HeartbeatResponse()

    async with serving(api(ApiKey.HEARTBEAT, cold)) as served:
        peer = await served.connect()
        for generation in (1, 2):
            peer.send(
                frame(HeartbeatRequest(group_id="g", generation_id=generation), 4, generation)
            )
        await served.until(lambda: len(served.pipeline.tasks) == 2)
        served.network.stop_accepting()
        await served.network.drain(0.1)
        assert events == ["done", "cancelled"]
        assert (await peer.response(ApiKey.HEARTBEAT, 4))[0] == 1


# Lines about peers


class Clock:
    now_ns = 10**12

    def monotonic_ns(self) -> int:
        return self.now_ns


def test_lines_are_limited() -> None:
    clock: Any = Clock()
    limit = LineLimit(clock)
    assert sum(limit.allows() for _ in range(1000)) == BURST
    assert limit.take_suppressed() == 1000 - BURST
    clock.now_ns += 1_000_000_000
    assert sum(limit.allows() for _ in range(1000)) == 2
    clock.now_ns += 3600 * 1_000_000_000
    assert sum(limit.allows() for _ in range(1000)) == BURST


@on_loop
async def test_a_bad_peer_cannot_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(BEATING) as served:
        for _ in range(3 * BURST):
            peer = await served.connect()
            peer.send(b"GET /")
            await peer.closed()
        assert len(warnings(caplog)) <= BURST + 10
        assert served.pipeline.peers.malformed_total == 3 * BURST


@pytest.mark.parametrize(
    ("first_bytes", "expected"),
    [
        (b"GET /", "HTTP"),
        (b"PUT /x", "HTTP"),
        (b"PRI * HTTP/2.0", "HTTP"),
        (b"\x16\x03\x03\0", "TLS"),
        (b"\x16\x04\x03\0", None),
        (b"", None),
        (b"GETX", None),
    ],
)
def test_recognise(first_bytes: bytes, expected: str | None) -> None:
    assert recognise(first_bytes) == expected
