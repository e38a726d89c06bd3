"""The controller role of a node: its listeners, its own registration, and its clock.

Handlers of a controller listener get this object as their node. What is asked of the quorum goes to
Raft, what is asked of the controller to this node's `KraftController`, which answers NOT_CONTROLLER
while another node leads. A broker's Envelope is opened here and handled as if its client had come
by itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from barnabas.api import DEFERRED
from barnabas.api.describe_cluster import CONTROLLERS
from barnabas.api.registry import (
    CONTROLLER_SERVED,
    FORWARDED,
    advertised_versions,
    load_handlers,
)
from barnabas.config.listeners import SECURITY_PROTOCOLS
from barnabas.metadata.features import SUPPORTED_FEATURES
from barnabas.server.connection import ConnectionSettings
from barnabas.server.endpoint import Endpoint
from barnabas.server.metadata_cache import NodeAddress
from barnabas.server.pipeline import Pipeline
from barnabas.wire.api_keys import ApiKey, response_class
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context
    from barnabas.config.broker import BrokerConfig
    from barnabas.controller.kraft.controller import KraftController
    from barnabas.metadata.image import MetadataImage
    from barnabas.seams import Address
    from barnabas.server.listener import Listener as OpenListener
    from barnabas.server.node import Node
    from barnabas.wire.message import Message

logger = logging.getLogger(__name__)

REGISTRATION_RETRY_MS: Final = 500
FALLBACK_HOST: Final = "localhost"


class ControllerServer:
    endpoint_type = CONTROLLERS

    def __init__(self, node: Node) -> None:
        self._node = node
        self.node_id = node.node_id
        self.clock = node.clock
        self.static_config = node.static_config
        self.metadata = ControllerMetadata(node)
        self.listeners: list[OpenListener] = []
        self.incarnation_id = node.incarnation_id
        self._handlers: dict[ApiKey, ModuleType] = {}
        self._advertised: dict[ApiKey, tuple[int, int]] = {}
        self._registering: asyncio.Task[None] | None = None

    # What handlers ask

    @property
    def cluster_id(self) -> str:
        return self._node.cluster_id

    @property
    def config(self) -> BrokerConfig:
        return self._node.config

    @property
    def controller(self) -> KraftController:
        kraft = self._node.quorum.controller
        if kraft is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        return kraft

    def advertised_versions(self) -> Mapping[ApiKey, tuple[int, int]]:
        return self._advertised

    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        return SUPPORTED_FEATURES

    def finalized_levels(self) -> Mapping[str, int]:
        return self._node.quorum.finalized_levels()

    async def describe_quorum(self, request: Any) -> Any:
        return await self._node.quorum.ask(request)

    def handle_quorum_request(self, key: ApiKey, context: Context, request: Message) -> object:
        self._node.quorum.driver.handle(
            key, context.api_version, request, context.respond, context.listener_name
        )
        return DEFERRED

    # What brokers forward

    def forwardable_versions(self, key: int) -> tuple[int, int] | None:
        if key not in FORWARDED:
            return None
        versions: tuple[int, int] = self._handlers[ApiKey(key)].VERSIONS
        return versions

    async def forwarded(
        self, key: int, version: int, client_id: str | None, context: Context, request: Message
    ) -> Message:
        if not self._node.quorum.raft.is_leader:
            # Also for what the quorum's leader answers: a broker of Apache's that asks the wrong node
            # looks for the right one only when it is told so.
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        module = self._handlers[ApiKey(key)]
        inner = _Forwarded(version, client_id, context, self._node.world.loop)
        try:
            answer: Any = module.handle(self, inner, request)
            if answer is DEFERRED:
                answer = inner.answer
            if not hasattr(answer, "API_KEY"):
                answer = await answer
        except ApiError as error:
            if error.code is ErrorCode.NOT_CONTROLLER:
                raise
            answer = _error_response(module, request, error, version)
        response: Message = answer
        return response

    # Life

    def listen(self) -> None:
        """Bind and answer at once: the quorum forms before anything else can happen."""
        node, config = self._node, self._node.config
        names = config.controller_listener_names
        endpoints = [
            Endpoint(each.name, each.host, each.port)
            for each in config.listeners
            if each.name in names
        ]
        if not endpoints:
            return
        self._handlers = load_handlers(CONTROLLER_SERVED)
        self._advertised = advertised_versions(
            self._handlers, unstable=config.values["unstable.api.versions.enable"]
        )
        pipeline = Pipeline(self, self._handlers, clock=self.clock, loop=node.world.loop)
        self.listeners = node.network.listen(
            endpoints,
            pipeline,
            ConnectionSettings(
                max_request_bytes=config.socket_request_max_bytes,
                max_requests_in_flight=config.queued_max_requests,
                max_idle_ms=config.connections_max_idle_ms,
            ),
            backlog=config.socket_listen_backlog_size,
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
        )
        for listener in self.listeners:
            listener.pause()

    def endpoints(self) -> list[Endpoint]:
        """Where the other nodes reach this controller: advertised, or as it is bound."""
        told = {
            each.name: Endpoint(each.name, each.host, each.port)
            for each in self.config.advertised_controller_listeners
            if each.host
        }
        found = []
        for listener in self.listeners:
            bound = listener.bound
            host = FALLBACK_HOST if bound.is_any_host else bound.host
            found.append(told.get(bound.name) or Endpoint(bound.name, host, bound.port))
        return found

    def _registered_endpoints(self) -> list[Endpoint]:
        """A node without a controller listener is registered as the quorum knows it."""
        if self.listeners:
            return self.endpoints()
        for voter in self._node.quorum.raft.voters.voters:
            if voter.voter_id == self.node_id:
                return [Endpoint(each.name, each.host, each.port) for each in voter.endpoints]
        return []

    def resume(self) -> None:
        for listener in self.listeners:
            listener.resume()

    async def start(self) -> None:
        """Register, as soon as there is somebody to register with."""
        self._registering = self._node.world.loop.create_task(self._register())
        if self._node.quorum.raft.is_leader:
            await asyncio.shield(self._registering)

    async def stop(self) -> None:
        task, self._registering = self._registering, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _register(self) -> None:
        """Make sure that the metadata knows this controller in its present incarnation."""
        protocols = self.config.listener_security_protocol_map
        request = ControllerRegistrationRequest(
            controller_id=self.node_id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=False,
            listeners=[
                Listener(
                    name=each.name,
                    host=each.host,
                    port=each.port,
                    security_protocol=SECURITY_PROTOCOLS[protocols.get(each.name, "PLAINTEXT")],
                )
                for each in self._registered_endpoints()
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
                if high > 0
            ],
        )
        while not self._is_known(self._node.metadata.image):
            try:
                response = await self._node.controller_channel.register_controller(request)
                code = ErrorCode.of(response.error_code)
            except ApiError as error:
                code = error.code
            if code is not ErrorCode.NONE:
                logger.info("the controller's registration is tried again: %s", code.name)
                await asyncio.sleep(REGISTRATION_RETRY_MS / 1000)
            elif not await self._node.until_known(self._is_known, REGISTRATION_RETRY_MS):
                logger.debug("the controller's registration has not been seen yet")

    def _is_known(self, image: MetadataImage) -> bool:
        known = image.controllers.get(self.node_id)
        return known is not None and known.incarnation_id == self.incarnation_id


def _error_response(module: ModuleType, request: Any, error: ApiError, version: int) -> Any:
    if hasattr(module, "error_response"):
        return module.error_response(request, error.code, version)
    response: Any = response_class(module.KEY)
    return response(error_code=error.code, error_message=error.message or error.code.message)


class ControllerMetadata:
    """What handlers of a controller listener ask about the cluster: its controllers."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def image(self) -> MetadataImage:
        return self._node.metadata.image

    def controller_id(self) -> int:
        return self._node.quorum.raft.leader_id

    def endpoints(self, context: Context, *, fenced: bool = False) -> list[NodeAddress]:
        found = []
        for node_id, controller in sorted(self.image.controllers.items()):
            listener = next(
                (each for each in controller.listeners if each.name == context.listener_name),
                None,
            )
            if listener is not None:
                found.append(NodeAddress(node_id, listener.host, listener.port, None, False))
        return found


class _Forwarded:
    """The context of a request that came in an envelope."""

    def __init__(
        self,
        version: int,
        client_id: str | None,
        outer: Context,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.api_version = version
        self.client_id = client_id
        self.answer: asyncio.Future[Any] = loop.create_future()
        self._outer = outer

    @property
    def listener_name(self) -> str:
        return self._outer.listener_name

    @property
    def client_address(self) -> Address:
        return self._outer.client_address

    @property
    def local_address(self) -> Address:
        return self._outer.local_address

    def respond(self, response: object) -> None:
        if not self.answer.done():
            self.answer.set_result(response)
