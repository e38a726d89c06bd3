"""Drives replication: the fetchers that follow leaders, and the proposals of in-sync replicas.

Both are machines without I/O (`replica/`). A fetcher has a connection to its leader of its own, as a
Fetch waits there for records; it has one request in flight and the next leaves when the answer is
appended. A proposal goes to the controller, one at a time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from barnabas.server.peer_channel import PeerChannel
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ApiError

if TYPE_CHECKING:
    import asyncio

    from barnabas.delayed.timer import Timeout
    from barnabas.replica.fetcher import FollowerFetcher
    from barnabas.seams import Address
    from barnabas.server.node import Node

logger = logging.getLogger(__name__)


class Replication:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._loops: dict[tuple[int, int], FetcherLoop] = {}
        self._isr_timer: Timeout | None = None
        self._isr_task: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        replicas = self._node.replicas
        replicas.fetcher_wanted = self.fetcher_wanted
        replicas.fetcher_unwanted = self.fetcher_unwanted
        replicas.isr_manager.broker_epoch = lambda: self._node.broker_lifecycle.broker_epoch
        replicas.isr_manager.wanted = self._isr_wanted
        for leader_id, number in replicas.fetchers:
            self.fetcher_wanted(leader_id, number)
        self._isr_wanted()

    def close(self) -> None:
        self._closed = True
        if self._isr_timer is not None:
            self._isr_timer.cancel()
        if self._isr_task is not None:
            self._isr_task.cancel()
        for loop in self._loops.values():
            loop.close()
        self._loops.clear()

    def fetcher_wanted(self, leader_id: int, number: int) -> None:
        """A fetcher has something to do: new partitions, or it is new itself."""
        if self._closed:
            return
        key = (leader_id, number)
        loop = self._loops.get(key)
        fetcher = self._node.replicas.fetchers[key]
        if loop is None or loop.fetcher is not fetcher:
            if loop is not None:
                loop.close()
            loop = self._loops[key] = FetcherLoop(self._node, leader_id, number, fetcher)
        loop.soon()

    def fetcher_unwanted(self, leader_id: int, number: int) -> None:
        """A fetcher has nothing left to follow."""
        loop = self._loops.pop((leader_id, number), None)
        if loop is not None:
            loop.close()

    # In-sync replicas

    def _isr_wanted(self) -> None:
        if self._closed or self._isr_task is not None:
            return
        due_ms = self._node.replicas.isr_manager.next_due_ms
        if due_ms is None:
            return
        if self._isr_timer is not None:
            self._isr_timer.cancel()
        delay_ms = max(0, due_ms - self._node.clock.now_ms())
        self._isr_timer = self._node.network.wheel.add(delay_ms, self._propose)

    def _propose(self) -> None:
        self._isr_timer = None
        request = self._node.replicas.isr_manager.take_request(self._node.clock.now_ms())
        if request is not None:
            self._isr_task = self._node.world.loop.create_task(self._ask(request))

    async def _ask(self, request: Any) -> None:
        response = None
        try:
            response = await self._node.controller_channel.alter_partition(request)
        except ApiError as error:
            logger.info("a change of in-sync replicas was not answered: %s", error.code.name)
        self._isr_task = None
        if not self._closed:
            self._node.replicas.isr_manager.answered(response, self._node.clock.now_ms())
            self._isr_wanted()


class FetcherLoop:
    """One fetcher and its connection."""

    def __init__(self, node: Node, leader_id: int, number: int, fetcher: FollowerFetcher) -> None:
        self.fetcher = fetcher
        self._node = node
        self._leader_id = leader_id
        self._number = number
        self._channel: PeerChannel | None = None
        self._timer: Timeout | None = None
        self._in_flight = False
        self._failing = False
        self._soon = False
        self._closed = False

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._channel is not None:
            self._channel.close()

    def soon(self) -> None:
        if not self._soon and not self._in_flight and not self._closed:
            self._soon = True
            self._node.world.loop.call_soon(self._woken)

    def _woken(self) -> None:
        self._soon = False
        self._go_on()

    def _go_on(self) -> None:
        if self._closed or self._in_flight:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ms = self._node.clock.now_ms()
        sent = self.fetcher.next_request(now_ms)
        if sent is None:
            due_ms = self.fetcher.next_due_ms
            if due_ms is not None:
                delay_ms = max(1, due_ms - now_ms)
                self._timer = self._node.network.wheel.add(delay_ms, self._go_on)
            return
        channel, config = self._connected(), self._node.config
        self._in_flight = True
        if channel is None:
            self._node.world.loop.call_soon(self._done, None, None)
            return
        channel.send(
            ApiKey(sent.API_KEY),
            sent,
            self._done,
            timeout_ms=config.replica_socket_timeout_ms + config.replica_fetch_wait_max_ms,
        )

    def _done(self, response: Any, error: Exception | None) -> None:
        self._in_flight = False
        if self._closed:
            return
        if error is not None and not self._failing:
            logger.info("broker %d cannot be fetched from: %s", self._leader_id, error)
        elif response is not None and self._failing:
            logger.info("broker %d answers again", self._leader_id)
        self._failing = response is None
        self._node.network.environment.turn.run(
            lambda: self.fetcher.answered(response, self._node.clock.now_ms())
        )
        self._go_on()

    def _connected(self) -> PeerChannel | None:
        address = address_of(self._node, self._leader_id)
        if address is None:
            return None
        if self._channel is None or self._channel.address != address:
            if self._channel is not None:
                self._channel.close()
            world = self._node.world
            self._channel = PeerChannel(
                address,
                environment=self._node.network.environment,
                transport=world.transport,
                randomness=world.randomness,
                client_id=f"broker-{self._node.node_id}-fetcher-{self._number}",
            )
        return self._channel


def address_of(node: Node, broker_id: int) -> Address | None:
    """Where another broker is reached by brokers."""
    broker = node.metadata.image.brokers.get(broker_id)
    if broker is None:
        return None
    listener = broker.listener(node.config.inter_broker_listener)
    return None if listener is None else (listener.host, listener.port)
