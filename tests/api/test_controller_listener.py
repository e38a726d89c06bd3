"""What a controller listener serves, and how it opens envelopes."""

from __future__ import annotations

import asyncio
from struct import pack
from typing import Any

import pytest

from barnabas.api import envelope
from barnabas.api.registry import CONTROLLER_SERVED, FORWARDED, SERVED, load_handlers
from barnabas.wire import codec
from barnabas.wire.api_keys import ApiKey, request_class
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.wire.messages.envelope import DefaultPrincipalData, EnvelopeRequest
from barnabas.wire.messages.metadata import MetadataRequest

ANONYMOUS = b"\0\0" + codec.encode(DefaultPrincipalData(type="User", name="ANONYMOUS"), 0)
HOST = bytes([127, 0, 0, 1])


def test_every_api_is_served_once_and_in_versions_that_exist() -> None:
    for served in (SERVED, CONTROLLER_SERVED):
        handlers = load_handlers(served)
        assert len(handlers) == len(served)
        for key, module in handlers.items():
            lowest, highest = request_class(key).VERSIONS
            assert lowest <= module.VERSIONS[0] <= module.VERSIONS[1] <= highest, key


def test_what_brokers_forward_is_served_by_controllers_and_brokers() -> None:
    assert set(load_handlers(CONTROLLER_SERVED)) >= FORWARDED


class Node:
    def __init__(self, error: ErrorCode | None = None) -> None:
        self.asked: list[Message] = []
        self.error = error

    def forwardable_versions(self, key: int) -> tuple[int, int] | None:
        return (2, 7) if key == ApiKey.CREATE_TOPICS else None

    async def forwarded(
        self, key: int, version: int, client_id: str | None, context: Any, request: Message
    ) -> Message:
        if self.error is not None:
            raise ApiError(self.error)
        assert (key, version, client_id) == (ApiKey.CREATE_TOPICS, 7, "c")
        self.asked.append(request)
        return CreateTopicsResponse(topics=[CreatableTopicResult(name="t")])


REQUEST = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1)])


def forwarded(request: Message, version: int) -> bytes:
    header = pack(">hhih", request.API_KEY, version, 77, 1) + b"c\0"
    return header + codec.encode(request, version)


def ask(node: Node, request: EnvelopeRequest) -> Any:
    return asyncio.run(envelope.handle(node, None, request))  # type: ignore[arg-type]


def test_an_envelope_is_opened_and_its_answer_sent_back_with_a_header() -> None:
    node = Node()
    answer = ask(
        node,
        EnvelopeRequest(
            request_data=forwarded(REQUEST, 7),
            request_principal=ANONYMOUS,
            client_host_address=HOST,
        ),
    )
    assert answer.error_code == 0
    assert node.asked == [REQUEST]
    assert answer.response_data[:5] == pack(">ib", 77, 0)
    inner = codec.decode(CreateTopicsResponse, 7, answer.response_data[5:])
    assert [topic.name for topic in inner.topics] == ["t"]


@pytest.mark.parametrize(
    ("data", "principal", "host", "code"),
    [
        (forwarded(REQUEST, 7), b"", HOST, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (forwarded(REQUEST, 7), b"\0\1abc", HOST, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (forwarded(REQUEST, 7), ANONYMOUS[:-2], HOST, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (forwarded(REQUEST, 7), ANONYMOUS, b"\1", ErrorCode.INVALID_REQUEST),
        (b"", ANONYMOUS, HOST, ErrorCode.INVALID_REQUEST),
        (forwarded(REQUEST, 7)[:-3], ANONYMOUS, HOST, ErrorCode.INVALID_REQUEST),
        (forwarded(MetadataRequest(), 12), ANONYMOUS, HOST, ErrorCode.INVALID_REQUEST),
        (pack(">hhih", 19, 99, 1, -1) + b"\0", ANONYMOUS, HOST, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_what_cannot_be_opened_is_refused(
    data: bytes, principal: bytes, host: bytes, code: ErrorCode
) -> None:
    node = Node()
    answer = ask(
        node,
        EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=host),
    )
    assert (ErrorCode.of(answer.error_code), answer.response_data) == (code, None)
    assert node.asked == []


def test_a_controller_that_is_not_active_says_so_of_the_envelope() -> None:
    request = EnvelopeRequest(
        request_data=forwarded(REQUEST, 7), request_principal=None, client_host_address=HOST
    )
    with pytest.raises(ApiError) as refused:
        ask(Node(ErrorCode.NOT_CONTROLLER), request)
    answer = envelope.error_response(request, refused.value.code, 0)
    assert answer.error_code == ErrorCode.NOT_CONTROLLER
