"""Envelope (58): what a client asked of a broker, forwarded to the controller (KIP-590).

Inside is a whole request with its header, and who sent it. It is handled as if it had come here, and
the answer travels back as bytes with its header. A controller that is not active says so of the
envelope itself, so that the broker can look for the one that is.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from barnabas.wire import codec
from barnabas.wire.api_keys import ApiKey, request_class
from barnabas.wire.errors import ErrorCode
from barnabas.wire.header import read_request_header, response_header
from barnabas.wire.messages.envelope import (
    DefaultPrincipalData,
    EnvelopeRequest,
    EnvelopeResponse,
)
from barnabas.wire.primitives import DecodeError

if TYPE_CHECKING:
    from barnabas.api.types import Context, ControllerNode

KEY = ApiKey.ENVELOPE
VERSIONS = (0, 0)

_VERSION = Struct(">h")
_ADDRESS_SIZES = (4, 16)


async def handle(
    node: ControllerNode, context: Context, request: EnvelopeRequest
) -> EnvelopeResponse:
    if not _is_principal(request.request_principal):
        return EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    if len(request.client_host_address) not in _ADDRESS_SIZES:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    data = request.request_data
    try:
        front = read_request_header(data, 0, len(data))
    except DecodeError:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    versions = node.forwardable_versions(front.api_key)
    if versions is None:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    if not versions[0] <= front.api_version <= versions[1]:
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    key, version = ApiKey(front.api_key), front.api_version
    try:
        asked, _end = codec.reader(request_class(key), version)(data, front.body, len(data))
    except DecodeError:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = await node.forwarded(key, version, front.client_id, context, asked)
    return EnvelopeResponse(
        response_data=response_header(key, version, front.correlation_id)
        + codec.encode(response, version)
    )


def _is_principal(data: bytes | None) -> bool:
    """Whether the sender is named in a form we know; without an authorizer all may do all."""
    if data is None:
        return True
    try:
        if len(data) < _VERSION.size or _VERSION.unpack_from(data)[0] != 0:
            return False
        codec.decode(DefaultPrincipalData, 0, data[_VERSION.size :])
    except DecodeError:
        return False
    return True


def error_response(request: EnvelopeRequest, code: ErrorCode, version: int) -> EnvelopeResponse:
    return EnvelopeResponse(error_code=code)
