"""How a broker asks the active controller, wherever it is.

If this node's own controller is active it is called directly. Otherwise the request goes to the node
that leads the quorum: what a client asked for inside an Envelope, with the client's principal, what
the broker itself wants as it is. Leaders change, so a request that meets a controller which is not
active, or nobody at all, is tried again until its time is over; the caller then gets
REQUEST_TIMED_OUT. As in Kafka a request whose answer was lost is sent again: what it asks for may
have happened already, and its answer says so.

Heartbeats, the broker's own requests and forwarded ones have a connection each, so that none waits
behind another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from barnabas.metadata.features import SUPPORTED_FEATURES
from barnabas.server.peer_channel import PeerChannel, PeerUnreachable
from barnabas.wire import codec
from barnabas.wire.api_keys import (
    ApiKey,
    request_class,
    request_header_version,
    response_class,
    response_header_version,
)
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.header import skip_tagged_fields
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.wire.messages.api_versions import ApiVersionsRequest
from barnabas.wire.messages.envelope import DefaultPrincipalData, EnvelopeRequest
from barnabas.wire.primitives import DecodeError

if TYPE_CHECKING:
    from barnabas.controller.kraft.controller import KraftController
    from barnabas.metadata.image import MetadataImage
    from barnabas.seams import Address, Clock, Randomness, Transport
    from barnabas.server.connection import Environment
    from barnabas.wire.message import Message

logger = logging.getLogger(__name__)

RETRY_MS: Final = 50
HEARTBEATS: Final = "heartbeat"
OWN: Final = "own"
FORWARDING: Final = "forwarding"
_HEADER = Struct(">hhih")
_CLIENT_ID = b"broker-forwarding"
_PRINCIPAL = b"\0\0" + codec.encode(DefaultPrincipalData(type="User", name="ANONYMOUS"), 0)
_LOCALHOST = b"\x7f\0\0\x01"
_NOT_THERE = frozenset(
    {ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}
)

Local = Callable[["KraftController"], Awaitable[Any]]


class ControllerChannel:
    """`local()` is this node's controller if it may be active, `leader()` where the leader is,
    `quorum(request)` asks this node's replica of the metadata log."""

    def __init__(
        self,
        *,
        node_id: int,
        environment: Environment,
        clock: Clock,
        transport: Transport,
        randomness: Randomness,
        local: Callable[[], KraftController | None],
        leader: Callable[[], Address | None],
        quorum: Callable[[Message], Awaitable[Message]],
        image: Callable[[], MetadataImage],
        request_timeout_ms: int,
    ) -> None:
        self.node_id = node_id
        self.broker_epoch = -1
        self._environment = environment
        self._clock = clock
        self._transport = transport
        self._randomness = randomness
        self._local = local
        self._leader = leader
        self._quorum = quorum
        self._image = image
        self._timeout_ms = request_timeout_ms
        self._channels: dict[str, PeerChannel] = {}
        self._closed = False

    @property
    def image(self) -> MetadataImage:
        return self._image()

    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        return SUPPORTED_FEATURES

    def close(self) -> None:
        self._closed = True
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    # What clients ask for

    async def create_topics(self, request: Any) -> Any:
        return await self._forward(request, lambda it: it.create_topics(request))

    async def delete_topics(self, request: Any) -> Any:
        return await self._forward(request, lambda it: it.delete_topics(request))

    async def create_partitions(self, request: Any) -> Any:
        return await self._forward(request, lambda it: it.create_partitions(request))

    async def incremental_alter_configs(self, request: Any) -> Any:
        return await self._forward(request, lambda it: it.incremental_alter_configs(request))

    async def alter_configs(self, request: Any) -> Any:
        return await self._forward(request, lambda it: it.alter_configs(request))

    async def update_features(self, request: Any) -> Any:
        return await self._forward(request, lambda it: it.update_features(request))

    async def elect_leaders(self, request: Any) -> Any:
        return await self._forward(request, lambda it: it.elect_leaders(request))

    async def alter_partition_reassignments(self, request: Any) -> Any:
        return await self._forward(request, lambda it: it.alter_partition_reassignments(request))

    async def list_partition_reassignments(self, request: Any) -> Any:
        return await self._forward(request, lambda it: it.list_partition_reassignments(request))

    async def unregister_broker(self, request: Any) -> Any:
        return await self._forward(request, lambda it: it.unregister_broker(request))

    async def describe_quorum(self, request: Any) -> Any:
        return await self.ask_quorum(request)

    async def ask_quorum(self, request: Any) -> Any:
        """A question about the quorum itself, which its leader answers."""
        return await self._forward(request, lambda it: self._quorum(request))

    # What the broker itself asks for

    async def register_broker(self, request: Any, *, timeout_ms: int | None = None) -> Any:
        return await self._ask(
            HEARTBEATS, request, lambda it: it.register_broker(request), timeout_ms
        )

    async def heartbeat_broker(self, request: Any, *, timeout_ms: int | None = None) -> Any:
        return await self._ask(
            HEARTBEATS, request, lambda it: it.heartbeat_broker(request), timeout_ms
        )

    async def register_controller(self, request: Any, *, timeout_ms: int | None = None) -> Any:
        return await self._ask(OWN, request, lambda it: it.register_controller(request), timeout_ms)

    async def alter_partition(self, request: Any, *, timeout_ms: int | None = None) -> Any:
        return await self._ask(OWN, request, lambda it: it.alter_partition(request), timeout_ms)

    async def assign_replicas_to_dirs(self, request: Any, *, timeout_ms: int | None = None) -> Any:
        return await self._ask(
            OWN, request, lambda it: it.assign_replicas_to_dirs(request), timeout_ms
        )

    async def allocate_producer_ids(self) -> tuple[int, int]:
        request = AllocateProducerIdsRequest(broker_id=self.node_id, broker_epoch=self.broker_epoch)
        response = await self._ask(
            OWN, request, lambda it: it.allocate_producer_ids_for(request), None
        )
        if response.error_code:
            raise ApiError(ErrorCode.of(response.error_code))
        return response.producer_id_start, response.producer_id_len

    # Asking

    async def _ask(
        self, purpose: str, request: Message, local: Local, timeout_ms: int | None
    ) -> Any:
        async def remote(channel: PeerChannel, left_ms: int) -> Any:
            return await self._request(channel, request, left_ms)

        return await self._until_done(purpose, request, local, remote, timeout_ms)

    async def _forward(self, request: Message, local: Local) -> Any:
        async def remote(channel: PeerChannel, left_ms: int) -> Any:
            return await self._enveloped(channel, request, left_ms)

        return await self._until_done(FORWARDING, request, local, remote, None)

    async def _until_done(
        self,
        purpose: str,
        request: Message,
        local: Local,
        remote: Callable[[PeerChannel, int], Awaitable[Any]],
        timeout_ms: int | None,
    ) -> Any:
        deadline_ms = self._clock.monotonic_ms() + (timeout_ms or self._timeout_ms)
        while True:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0 or self._closed:
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT)
            try:
                controller = self._local()
                if controller is not None:
                    response = await local(controller)
                else:
                    response = await remote(self._channel(purpose), left_ms)
                if getattr(response, "error_code", 0) not in _NOT_THERE:
                    return response
            except ApiError as error:
                if error.code not in _NOT_THERE:
                    raise
            except PeerUnreachable as error:
                logger.debug("the controller cannot be reached: %s", error)
            await asyncio.sleep(RETRY_MS / 1000)

    def _channel(self, purpose: str) -> PeerChannel:
        address = self._leader()
        if address is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        channel = self._channels.get(purpose)
        if channel is None or channel.address != address:
            if channel is not None:
                channel.close()
            channel = self._channels[purpose] = PeerChannel(
                address,
                environment=self._environment,
                transport=self._transport,
                randomness=self._randomness,
                client_id=f"broker-{self.node_id}-to-controller-{purpose}",
            )
        return channel

    async def _request(self, channel: PeerChannel, request: Message, timeout_ms: int) -> Any:
        future: asyncio.Future[Any] = self._environment.loop.create_future()

        def done(response: Message | None, error: Exception | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(response)

        key = ApiKey(request.API_KEY)
        timeout_ms = min(timeout_ms, self._timeout_ms)
        channel.send(key, request, done, timeout_ms=timeout_ms)
        return await future

    async def _enveloped(self, channel: PeerChannel, request: Message, timeout_ms: int) -> Any:
        if channel.versions is None:
            hello = ApiVersionsRequest(client_software_name="barnabas", client_software_version="1")
            await self._request(channel, hello, timeout_ms)
        key = ApiKey(request.API_KEY)
        theirs = (channel.versions or {}).get(key)
        if theirs is None:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        lowest, highest = request_class(key).VERSIONS
        version = min(highest, theirs[1])
        if version < max(lowest, theirs[0]):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        header = _HEADER.pack(key, version, 0, len(_CLIENT_ID)) + _CLIENT_ID
        if request_header_version(key, version) == 2:
            header += b"\0"
        envelope = EnvelopeRequest(
            request_data=header + codec.encode(request, version),
            request_principal=_PRINCIPAL,
            client_host_address=_LOCALHOST,
        )
        answer = await self._request(channel, envelope, timeout_ms)
        if answer.error_code:
            raise ApiError(ErrorCode.of(answer.error_code))
        return _opened(key, version, answer.response_data or b"")


def _opened(key: ApiKey, version: int, data: bytes) -> Any:
    """The response inside an envelope."""
    try:
        position = 4
        if response_header_version(key, version):
            position = skip_tagged_fields(data, position, len(data))
        response, _end = codec.reader(response_class(key), version)(data, position, len(data))
    except DecodeError as error:
        raise PeerUnreachable(f"the controller's answer cannot be read: {error}") from error
    return response
