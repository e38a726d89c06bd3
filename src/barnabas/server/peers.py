"""One line for each peer that sends what is no request, and never a flood of them.

Lines are limited for the node as a whole: a burst, then a few a second; what was left out is
counted and told with the next line. The commonest mistakes, HTTP and TLS on a plaintext port, are
recognised from their first bytes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.seams import Clock

if TYPE_CHECKING:
    from barnabas.server.channel import Channel

logger = logging.getLogger("barnabas.peers")

BURST = 20
LINES_PER_SECOND = 2
SHOWN_BYTES = 16
LONGEST_LINE = 400

_HTTP = (
    b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ",
)  # fmt: skip
_TLS_HANDSHAKE = b"\x16\x03"


def recognise(first_bytes: bytes) -> str | None:
    """What a peer seems to speak when it does not speak Kafka."""
    if first_bytes[:4] in _HTTP:
        return "HTTP"
    if first_bytes[:2] == _TLS_HANDSHAKE:
        return "TLS"
    if first_bytes[:4] == b"SSH-":
        return "SSH"
    return None


class LineLimit:
    """A bucket of lines that may be logged."""

    __slots__ = ("_clock", "_full_at_ns", "suppressed")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._full_at_ns = 0
        self.suppressed = 0

    def allows(self) -> bool:
        """True if a line may be logged now."""
        now_ns = self._clock.monotonic_ns()
        line_ns = 1_000_000_000 // LINES_PER_SECOND
        used_until_ns = max(self._full_at_ns, now_ns) + line_ns
        if used_until_ns - now_ns > BURST * line_ns:
            self.suppressed += 1
            return False
        self._full_at_ns = used_until_ns
        return True

    def take_suppressed(self) -> int:
        count, self.suppressed = self.suppressed, 0
        return count


class PeerLog:
    __slots__ = ("_limit", "malformed_total")

    def __init__(self, clock: Clock) -> None:
        self._limit = LineLimit(clock)
        self.malformed_total = 0

    def complain(self, channel: Channel, what: str) -> None:
        """Log that a connection is closed because of what its peer sent."""
        self.malformed_total += 1
        if not self._limit.allows():
            return
        host, port = channel.client_address
        suppressed = self._limit.take_suppressed()
        more = f" ({suppressed} more such lines were left out)" if suppressed else ""
        logger.warning(
            "Closing the connection of %s:%d on %s: %s%s",
            host,
            port,
            channel.listener_name,
            what[:LONGEST_LINE],
            more,
        )

    def complain_of_size(self, channel: Channel, size: int, first_bytes: bytes) -> None:
        spoken = recognise(first_bytes)
        if spoken == "TLS":
            what = "the client speaks TLS, this listener is plaintext (security.protocol)"
        elif spoken == "HTTP":
            what = "the client speaks HTTP, this is a Kafka listener"
        elif spoken is not None:
            what = f"the client speaks {spoken}, this is a Kafka listener"
        else:
            what = (
                f"a request of {size} bytes is announced, which is not between 1 and "
                f"socket.request.max.bytes (first bytes {first_bytes[:SHOWN_BYTES].hex(' ')})"
            )
        self.complain(channel, what)
