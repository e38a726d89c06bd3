"""A broker's life as the controller sees it: registered, fenced, serving, shutting down.

A broker registers under a new incarnation and gets an epoch. It then sends heartbeats, every
`broker.heartbeat.interval.ms`, saying how far it has read the metadata. Registered brokers are
fenced until they have caught up and ask to serve; one whose heartbeats stop is fenced again, and
unfenced by the next heartbeat that shows it has caught up. Before it stops, it asks the controller
to move its leaderships away and waits for the permission, within `SHUTDOWN_LIMIT_MS`; if no
controller answers, it stops without.

Nothing here decides: a request that fails is sent again after the next interval. Only a
registration that can never succeed ends the start of the node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.metadata.features import SUPPORTED_FEATURES
from barnabas.raft.errors import StorageError
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig
    from barnabas.metadata.image import Listener as ImageListener
    from barnabas.seams import Clock
    from barnabas.server.controller_channel import ControllerChannel

logger = logging.getLogger(__name__)

RETRY_MS: Final = 100
SHUTDOWN_LIMIT_MS: Final = 30_000
SHUTDOWN_ANSWER_MS: Final = 3_000
UNFENCE_RETRY_MS: Final = 20
_HOPELESS: Final = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REGISTRATION,
    }
)


class BrokerLifecycle:
    """`offset()` is how far this node's metadata is; `offline_dirs()` the ids of failed directories."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        controller: ControllerChannel,
        incarnation_id: bytes,
        offset: Callable[[], int],
        offline_dirs: Callable[[], list[bytes]],
    ) -> None:
        self.broker_epoch = -1
        self.is_fenced = True
        self._config = config
        self._clock = clock
        self._controller = controller
        self._incarnation_id = incarnation_id
        self._offset = offset
        self._offline_dirs = offline_dirs
        self._want_fence = True
        self._want_shut_down = False
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    # Registration

    async def register(
        self,
        cluster_id: str,
        listeners: Sequence[ImageListener],
        directories: Sequence[bytes],
        previous_epoch: int = -1,
    ) -> int:
        """Try until the controller accepts; gives the epoch."""
        request = BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                Listener(
                    name=each.name,
                    host=each.host,
                    port=each.port,
                    security_protocol=each.security_protocol,
                )
                for each in listeners
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
                if high > 0
            ],
            rack=self._config.broker_rack,
            log_dirs=sorted(directories),
            previous_broker_epoch=previous_epoch,
        )
        limit_ms = self._config.initial_broker_registration_timeout_ms
        deadline_ms = self._clock.monotonic_ms() + limit_ms
        refused = told = ""
        while True:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                raise StorageError(
                    f"broker {self._config.node_id} could not register with the controller within "
                    f"initial.broker.registration.timeout.ms ({limit_ms} ms): "
                    f"{refused or self._nobody_answered()}"
                )
            try:
                response = await self._controller.register_broker(request, timeout_ms=left_ms)
                code = ErrorCode.of(response.error_code)
            except ApiError as error:
                code, response = error.code, None
                if code is not ErrorCode.REQUEST_TIMED_OUT:
                    refused = error.message or error.code.message
            if code is ErrorCode.NONE and response is not None:
                self.broker_epoch = self._controller.broker_epoch = response.broker_epoch
                logger.info(
                    "broker %d is registered with epoch %d",
                    self._config.node_id,
                    self.broker_epoch,
                )
                return self.broker_epoch
            if code in _HOPELESS:
                raise StorageError(
                    f"the controller refuses broker {self._config.node_id} of cluster "
                    f"{cluster_id}: {code.name} ({code.message})"
                )
            if code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                refused = (
                    f"{code.name} (another process is registered with node.id="
                    f"{self._config.node_id} and sends heartbeats; stop it, or change node.id)"
                )
            elif response is not None:
                refused = f"{code.name} ({code.message})"
            if refused != told:
                told = refused
                logger.info("registration is tried again: %s", refused)
            await asyncio.sleep(RETRY_MS / 1000)

    def _nobody_answered(self) -> str:
        config = self._config
        asked = config.controller_quorum_bootstrap_servers or config.controller_quorum_voters
        where = f" at {', '.join(asked)}" if asked else ""
        return (
            f"no active controller was reached{where}. A majority of the controllers must run, and "
            "controller.quorum.bootstrap.servers or controller.quorum.voters must name them"
        )

    # Heartbeats

    def start_heartbeats(self) -> None:
        assert self.broker_epoch >= 0, "heartbeats follow the registration"
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def unfence(self) -> None:
        """Ask to serve, until the controller agrees: it does when the metadata is caught up."""
        self._want_fence = False
        while self.is_fenced:
            await self._beat()
            if self.is_fenced:
                await asyncio.sleep(UNFENCE_RETRY_MS / 1000)
        logger.info("broker %d is unfenced", self._config.node_id)

    def beat_soon(self) -> None:
        """Something that the controller should know at once: a directory has failed."""
        self._wake.set()

    async def shut_down(self) -> None:
        """Ask for the permission to stop, and wait for it within bounds."""
        if self.broker_epoch < 0:
            return
        self._want_shut_down = True
        deadline_ms = self._clock.monotonic_ms() + SHUTDOWN_LIMIT_MS
        while self._clock.monotonic_ms() < deadline_ms:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            response = await self._beat(min(left_ms, SHUTDOWN_ANSWER_MS))
            if response is None or response.should_shut_down:
                break
            await asyncio.sleep(RETRY_MS / 1000)
        await self.stop()

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        interval_s = self._config.broker_heartbeat_interval_ms / 1000
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            timer = loop.call_later(interval_s, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                timer.cancel()
            if not self._want_shut_down:
                await self._beat()

    async def _beat(self, timeout_ms: int | None = None) -> BrokerHeartbeatResponse | None:
        """One heartbeat; None if it did not get an answer that counts."""
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._offset(),
            want_fence=self._want_fence,
            want_shut_down=self._want_shut_down,
            offline_log_dirs=self._offline_dirs(),
        )
        limit_ms = timeout_ms or self._config.broker_session_timeout_ms
        try:
            response: BrokerHeartbeatResponse = await self._controller.heartbeat_broker(
                request, timeout_ms=limit_ms
            )
        except ApiError as error:
            logger.warning("a heartbeat was not answered: %s", error.message or error.code.name)
            return None
        except Exception:
            logger.exception("a heartbeat failed")
            return None
        if response.error_code:
            code = ErrorCode.of(response.error_code)
            logger.warning("the controller answered a heartbeat with %s", code.name)
            return None
        if response.is_fenced and not self.is_fenced and not self._want_shut_down:
            logger.warning("the controller has fenced broker %d", self._config.node_id)
        self.is_fenced = response.is_fenced
        return response
