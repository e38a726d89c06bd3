"""A line per answered request, for those who want to see everything. Off unless switched on.

The pipeline asks only whether there is a request log, so that it costs nothing when there is none.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.server.context import RequestContext

logger = logging.getLogger("barnabas.requests")


class RequestLog:
    """Writes to the logger `barnabas.requests`, at whatever level the others are."""

    __slots__ = ()

    def __init__(self) -> None:
        logger.setLevel(logging.INFO)

    def write(self, answered: list[RequestContext], sent_ns: int) -> None:
        if not logger.isEnabledFor(logging.INFO):
            return
        for context in answered:
            logger.info("%s", line(context, sent_ns))


def line(context: RequestContext, sent_ns: int) -> str:
    """`api=Produce version=9 ... total_ms=0.123`: pairs that are easy to cut and to sort."""
    responded_ns = context.responded_ns or context.local_done_ns
    queued_ns = context.queued_ns or responded_ns
    host, port = context.client_address
    pairs = {
        "api": context.route.name,
        "version": context.api_version,
        "correlation_id": context.correlation_id,
        "client_id": _quoted(context.client_id),
        "client": f"{host}:{port}",
        "listener": context.listener_name,
        "request_bytes": context.request_bytes,
        "response_bytes": context.response_bytes,
        "queue_ms": _ms(context.started_ns - context.received_ns),
        "local_ms": _ms(context.local_done_ns - context.started_ns),
        "remote_ms": _ms(responded_ns - context.local_done_ns),
        "throttle_ms": context.throttle_ms,
        "response_queue_ms": _ms(queued_ns - responded_ns),
        "send_ms": _ms(sent_ns - queued_ns),
        "total_ms": _ms(sent_ns - context.received_ns),
    }
    return " ".join(f"{name}={value}" for name, value in pairs.items())


def _ms(duration_ns: int) -> str:
    return f"{max(0, duration_ns) / 1_000_000:.3f}"


def _quoted(text: str | None) -> str:
    if text is None:
        return "-"
    if text.isprintable() and " " not in text and '"' not in text and text:
        return text
    return ascii(text)
