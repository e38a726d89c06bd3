"""What was asked of other nodes: one request at a time to each, with a timeout and a pause after a
failure.

An answer counts only if it is to the request that is under way. A change of state forgets all of
them, so nothing asked in one state is answered in another.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.raft.settings import RaftSettings
from barnabas.seams import Address
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.message import Message

NEVER_MS = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Send:
    """A request on its way; `node` is -1 where only an address is known."""

    node: int
    host: str
    port: int
    key: ApiKey
    request: Message
    timeout_ms: int


class Connections:
    def __init__(self, settings: RaftSettings) -> None:
        self._settings = settings
        self._under_way: dict[Address, tuple[Send, int]] = {}
        self._paused: dict[Address, int] = {}
        self._outgoing: list[Send] = []

    def take_sends(self) -> list[Send]:
        sends, self._outgoing = self._outgoing, []
        return sends

    def is_ready(self, address: Address, now_ms: int) -> bool:
        under_way = self._under_way.get(address)
        if under_way is not None:
            if now_ms < under_way[1]:
                return False
            self._fail(address, now_ms)
        return now_ms >= self._paused.get(address, 0)

    def ready_ms(self, address: Address) -> int:
        """When `is_ready` is worth asking again, if nothing is answered before."""
        under_way = self._under_way.get(address)
        return under_way[1] if under_way is not None else self._paused.get(address, 0)

    def is_under_way(self, address: Address, now_ms: int) -> bool:
        return address in self._under_way and now_ms < self._under_way[address][1]

    def send(self, node: int, address: Address, request: Message, now_ms: int) -> Send:
        assert self.is_ready(address, now_ms), "one request at a time to each node"
        timeout_ms = self._settings.request_timeout_ms
        key = type(request).API_KEY
        assert key is not None
        send = Send(node, *address, key, request, timeout_ms)
        self._under_way[address] = (send, now_ms + timeout_ms)
        self._outgoing.append(send)
        return send

    def answered(self, send: Send, ok: bool, now_ms: int) -> bool:
        """False if nobody waits for this answer any more."""
        address = (send.host, send.port)
        under_way = self._under_way.get(address)
        if under_way is None or under_way[0] is not send:
            return False
        if ok:
            del self._under_way[address]
            self._paused.pop(address, None)
        else:
            self._fail(address, now_ms)
        return True

    def pause(self, send: Send, now_ms: int) -> None:
        """The answer was of no use: wait before asking again."""
        self._paused[send.host, send.port] = now_ms + self._settings.retry_backoff_ms

    def _fail(self, address: Address, now_ms: int) -> None:
        del self._under_way[address]
        self._paused[address] = now_ms + self._settings.retry_backoff_ms

    def reset(self) -> None:
        self._under_way.clear()
        self._paused.clear()
        self._outgoing.clear()
