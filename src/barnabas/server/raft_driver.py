"""Drives the quorum's state machine: time, messages and flushes.

`Raft` touches nothing of the world. After every call into it the driver sends what it wants to
send, flushes its log in the background if it wants that (one flush at a time), and sets a timer for
when it next wants to look at the clock. Whoever else calls into it (the controller that appends)
wakes the driver through `Raft.wake`.

Each address has two channels: a Fetch waits at the leader for records, and a vote must not wait
behind it. Channels that nobody used for a while are closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from barnabas.server.peer_channel import PeerChannel
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.vote import VoteResponse
from barnabas.wire.primitives import EncodeError

if TYPE_CHECKING:
    from barnabas.delayed.timer import Timeout
    from barnabas.raft.raft import Raft, Send
    from barnabas.seams import Address, Background, Clock, Randomness, Transport
    from barnabas.server.connection import Environment
    from barnabas.wire.message import Message

logger = logging.getLogger(__name__)

MAX_CHANNELS: Final = 256
MAX_ROUNDS: Final = 1_000
GOODBYE_S: Final = 1.0
MAX_WAIT_MS: Final = 60_000


class RaftDriver:
    def __init__(
        self,
        raft: Raft,
        *,
        node_id: int,
        environment: Environment,
        clock: Clock,
        transport: Transport,
        randomness: Randomness,
        background: Background,
        failed: Callable[[OSError], None],
    ) -> None:
        self.raft = raft
        self._environment = environment
        self._clock = clock
        self._transport = transport
        self._randomness = randomness
        self._background = background
        self._failed = failed
        self._client_id = f"raft-client-{node_id}"
        self._channels: dict[tuple[str, int, bool], PeerChannel] = {}
        self._timer: Timeout | None = None
        self._timer_ms = 0
        self._under_way = 0
        self._flushing = False
        self._soon = False
        self._driving = False
        self.closed = False
        raft.wake = self.wake

    def start(self) -> None:
        self.raft.start(self._clock.now_ms())
        self.drive()

    def handle(
        self,
        key: ApiKey,
        version: int,
        request: Message,
        reply: Callable[[Any], None],
        listener_name: str,
    ) -> None:
        """A request of another node; `reply` is called once, now or later."""
        now_ms = self._clock.now_ms()
        self.raft.handle(key, version, request, now_ms, reply, listener_name=listener_name)
        self.drive()

    def wake(self) -> None:
        """Somebody else called into Raft: look after it soon."""
        if not self._soon and not self.closed:
            self._soon = True
            self._environment.loop.call_soon(self._woken)

    def shutdown(self) -> None:
        """Tell the others that this node leaves."""
        self.raft.shutdown(self._clock.now_ms())
        self.drive()

    async def said_goodbye(self) -> None:
        """Wait, within bounds, until what was sent has been answered."""
        deadline = self._environment.loop.time() + GOODBYE_S
        while self._under_way and self._environment.loop.time() < deadline:
            await asyncio.sleep(0.005)

    def close(self) -> None:
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def _woken(self) -> None:
        self._soon = False
        if not self.closed:
            self.drive()

    def drive(self) -> None:
        """Do what Raft wants done."""
        if self._driving or self.closed:
            return
        self._driving = True
        try:
            for _ in range(MAX_ROUNDS):
                sends = self.raft.take_sends()
                for send in sends:
                    self._send(send)
                if not sends:
                    break
            if self.raft.wants_flush and not self._flushing:
                self._flush()
        finally:
            self._driving = False
        self._set_timer()

    def _set_timer(self) -> None:
        at_ms = self.raft.next_tick_ms
        if self._timer is not None:
            if self._timer_ms == at_ms and self._timer.pending:
                return
            self._timer.cancel()
        self._timer_ms = at_ms
        delay_ms = min(max(0, at_ms - self._clock.now_ms()), MAX_WAIT_MS)
        self._timer = self._environment.wheel.add(delay_ms, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.raft.tick(self._clock.now_ms())
        self.drive()

    # Messages

    def _send(self, send: Send) -> None:
        is_goodbye = send.key is ApiKey.END_QUORUM_EPOCH
        is_fetch = send.key in (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT)
        channel = self._channel((send.host, send.port), is_fetch)

        def done(response: Message | None, error: Exception | None) -> None:
            self._under_way -= is_goodbye
            if self.closed:
                return
            if error is not None:
                logger.debug("%s to %s:%d: %s", send.key.name, send.host, send.port, error)
                if send.key is ApiKey.VOTE and _is_unsupported(error):
                    # It knows no pre-vote, and Raft knows what to do about that.
                    response = VoteResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            self.raft.answered(send, response, self._clock.now_ms())
            self.drive()

        self._under_way += is_goodbye
        channel.send(send.key, send.request, done, timeout_ms=send.timeout_ms)

    def _channel(self, address: Address, is_fetch: bool) -> PeerChannel:
        key = (*address, is_fetch)
        channel = self._channels.get(key)
        if channel is None:
            if len(self._channels) >= MAX_CHANNELS:
                self._channels.pop(next(iter(self._channels))).close()
            channel = self._channels[key] = PeerChannel(
                address,
                environment=self._environment,
                transport=self._transport,
                randomness=self._randomness,
                client_id=self._client_id,
            )
        return channel

    # Flushes

    def _flush(self) -> None:
        self._flushing = True
        self._background.submit(self.raft.log.sync, self._flushed)

    def _flushed(self, point: Any, error: Exception | None) -> None:
        self._flushing = False
        if self.closed:
            return
        if error is not None or point is None:
            failure = error if isinstance(error, OSError) else OSError(str(error))
            self.raft.failed(failure)
            self._failed(failure)
            return
        self.raft.flushed(point, self._clock.now_ms())
        self.drive()


def _is_unsupported(error: Exception) -> bool:
    return isinstance(error, EncodeError) or (
        isinstance(error, ApiError) and error.code is ErrorCode.UNSUPPORTED_VERSION
    )
