"""Request headers from whole frames, and the bytes of response headers."""

from __future__ import annotations

import pytest

from barnabas.wire import codec
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.codec import DecodeError
from barnabas.wire.header import (
    RequestHeader,
    ResponseHeader,
    read_request_header,
    response_header,
    skip_tagged_fields,
)


def header(key: int, version: int, client_id: str | None, header_version: int) -> bytes:
    message = RequestHeader(
        request_api_key=key,
        request_api_version=version,
        correlation_id=77,
        client_id=client_id,
    )
    return codec.encode(message, header_version)


@pytest.mark.parametrize("client_id", [None, "", "me", "é" * 300])
@pytest.mark.parametrize(("version", "header_version"), [(8, 1), (9, 2)])
def test_a_header_in_a_frame(version: int, header_version: int, client_id: str | None) -> None:
    encoded = header(0, version, client_id, header_version)
    frame = b"...." + encoded + b"body"
    for buffer in (frame, bytearray(frame), memoryview(frame)):
        assert read_request_header(buffer, 4, len(frame)) == (
            0, version, 77, client_id, 4 + len(encoded),
        )  # fmt: skip


def test_the_client_id_is_never_compact() -> None:
    assert header(18, 3, "ab", 2).hex() == "00120003" + "0000004d" + "0002" + "6162" + "00"


@pytest.mark.parametrize(("version", "header_version"), [(8, 1), (9, 2)])
def test_a_cut_anywhere_is_noticed(version: int, header_version: int) -> None:
    encoded = header(0, version, "client", header_version)
    for cut in range(len(encoded)):
        with pytest.raises(DecodeError):
            read_request_header(encoded[:cut], 0, cut)
        with pytest.raises(DecodeError):
            read_request_header(encoded, 0, cut)


@pytest.mark.parametrize(
    "data",
    [
        "0000 0008 00000000 fffe",
        "0000 0008 00000000 7fff",
        "0000 0008 00000000 0001ff",
        "0000 0009 00000000 ffff ffffffff0f",
        "0000 0009 00000000 ffff 02 0500 0500",
        "0000 0009 00000000 ffff 01 05ff",
        "0000 0009 00000000 ffff 808080808000",
    ],
)
def test_bad_headers(data: str) -> None:
    frame = bytes.fromhex(data)
    with pytest.raises(DecodeError):
        read_request_header(frame, 0, len(frame))


def test_tagged_fields_are_passed_over() -> None:
    encoded = header(0, 9, None, 2)[:-1] + bytes.fromhex("02 00 01 ff 05 00")
    assert read_request_header(encoded, 0, len(encoded)).body == len(encoded)
    assert skip_tagged_fields(b"\x00", 0, 1) == 1


def test_an_unknown_key_is_left_to_the_caller() -> None:
    encoded = header(999, 5, "x", 1)
    assert read_request_header(encoded, 0, len(encoded)).api_key == 999


def test_response_headers() -> None:
    assert response_header(ApiKey.PRODUCE, 8, 77) == b"\x00\x00\x00\x4d"
    assert response_header(ApiKey.PRODUCE, 9, 77) == b"\x00\x00\x00\x4d\x00"
    assert response_header(ApiKey.API_VERSIONS, 3, 77) == b"\x00\x00\x00\x4d"
    assert response_header(0, 9, 77) == codec.encode(ResponseHeader(correlation_id=77), 1)
