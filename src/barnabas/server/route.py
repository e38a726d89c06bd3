"""One API in one version: how to read it, who handles it, how to write the answer.

Routes are made on first use and found by the first four bytes of the header, so that a request
costs one dictionary lookup to dispatch.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from types import ModuleType
from typing import Any

from barnabas.server.api_metrics import ApiMetrics
from barnabas.server.error_counts import error_finder
from barnabas.wire import api_keys, codec
from barnabas.wire.errors import ErrorCode
from barnabas.wire.layout import version_range

MAX_PLAIN_REQUEST_BYTES = 8 * 1024 * 1024
"""The bound on requests without records. Two bytes of an array can become a struct of a hundred, so
what a few megabytes may cost is known, and what `socket.request.max.bytes` allows for records is not
affordable for anything else."""

_PLAIN_HEADER = Struct(">ii")
_FLEXIBLE_HEADER = Struct(">iix")
_FLEXIBLE_REQUEST_HEADER_VERSION = 2
_FLEXIBLE_RESPONSE_HEADER_VERSION = 1
UNLIMITED = 2**31


class Route:
    __slots__ = (
        "_error_response",
        "flexible_header",
        "handle",
        "has_error_code",
        "has_error_message",
        "header_bytes",
        "key",
        "max_bytes",
        "metrics",
        "name",
        "nonzero_errors",
        "pack_header",
        "read",
        "requests",
        "response_class",
        "version",
        "write",
    )

    def __init__(self, key: int, version: int, module: ModuleType, metrics: ApiMetrics) -> None:
        api = api_keys.ApiKey(key)
        self.key = key
        self.version = version
        self.metrics = metrics
        self.name = metrics.name
        self.requests = 0
        self.handle: Callable[[Any, Any, Any], object] = module.handle
        self.response_class: Any = api_keys.response_class(api)
        request: Any = api_keys.request_class(api)
        self.read = codec.reader(request, version)
        self.max_bytes = UNLIMITED if _has_records(request) else MAX_PLAIN_REQUEST_BYTES
        self.write = codec.writer(self.response_class, version)
        self.flexible_header = (
            api_keys.request_header_version(api, version) >= _FLEXIBLE_REQUEST_HEADER_VERSION
        )
        header = (
            _FLEXIBLE_HEADER
            if api_keys.response_header_version(api, version) >= _FLEXIBLE_RESPONSE_HEADER_VERSION
            else _PLAIN_HEADER
        )
        self.pack_header = header.pack
        self.header_bytes = header.size - 4
        self.nonzero_errors = error_finder(self.response_class)
        fields = {
            field.name
            for field in self.response_class.FIELDS
            if version_range(field.versions)[0] <= version <= version_range(field.versions)[1]
        }
        self.has_error_code = "error_code" in fields
        self.has_error_message = "error_message" in fields
        self._error_response: Callable[[Any, ErrorCode, int], object] | None = getattr(
            module, "error_response", None
        )

    def error_response(self, request: Any, code: ErrorCode, message: str | None) -> Any | None:
        """The response that tells a failure of the whole request; None if there is no such one."""
        if self._error_response is not None:
            return self._error_response(request, code, self.version)
        if not self.has_error_code:
            return None
        response = self.response_class(error_code=code)
        if self.has_error_message and message is not None:
            response.error_message = message
        return response


def _has_records(struct: Any) -> bool:
    return any(
        field.kind == "records" or (field.struct is not None and _has_records(field.struct))
        for field in struct.FIELDS
    )
