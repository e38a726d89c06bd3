"""The cluster as a client sees it: metadata, one connection for each broker, retries.

Everything that must find the right broker and try again goes through here. `retry` is the one loop:
it repeats an attempt while its error is retriable, with backoff, until the time is up, and then says
what it waited for and what the last attempt answered. The first contact is different: when none of
the bootstrap servers can be reached it fails at once, because for a person at a prompt a wrong
address is likelier than a broker that is just starting (`patience_ms` changes that).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from barnabas.client.blocking.connection import Connection
from barnabas.client.core.backoff import Backoff
from barnabas.client.core.metadata import Broker, ClusterMetadata, TopicInfo, TopicPartition
from barnabas.client.errors import (
    BrokerError,
    ClientError,
    ClosedError,
    ConnectionFailure,
    NoBrokerReachable,
    RequestTimeout,
    broker_error,
)
from barnabas.client.settings import ClientSettings
from barnabas.wire.errors import ErrorCode

T = TypeVar("T")

GROUP, TRANSACTION = 0, 1
MAX_CACHED_COORDINATORS = 10_000


class Cluster:
    """Shared by admin, producer and consumer. Safe to use from several threads."""

    def __init__(self, settings: ClientSettings, *, patience_ms: int = 0) -> None:
        self.settings = settings
        self.patience_ms = patience_ms
        self.metadata = ClusterMetadata()
        self._lock = threading.RLock()
        self._connections: dict[tuple[int, str], Connection] = {}
        self._bootstrap: Connection | None = None
        self._coordinators: dict[tuple[str, int], int] = {}
        self._attempts: dict[str, int] = {}
        self._closed = False

    @property
    def asks_controllers(self) -> bool:
        """Whether the nodes that this client knows are the controllers, not the brokers."""
        return bool(self.settings.bootstrap_controllers)

    # -- connections

    def connection(self, node_id: int, purpose: str = "") -> Connection:
        """An open connection to a broker. Different purposes never share one."""
        with self._lock:
            if self._closed:
                raise ClosedError("The client is closed.")
            known = self._connections.get((node_id, purpose))
            if known is not None and not known.closed:
                return known
            broker = self.metadata.brokers.get(node_id)
            if broker is None:
                self.refresh()
                broker = self.metadata.brokers.get(node_id)
                if broker is None:
                    raise broker_error(
                        ErrorCode.BROKER_NOT_AVAILABLE,
                        f"Broker {node_id} is not in the cluster now.",
                    )
            opened = self._take_bootstrap(broker) if not purpose else None
            if opened is None:
                opened = self._connect(broker.host, broker.port, advertised=broker)
            self._connections[(node_id, purpose)] = opened
            return opened

    def _take_bootstrap(self, broker: Broker) -> Connection | None:
        opened = self._bootstrap
        if opened is None or opened.closed:
            return None
        if (opened.host, opened.port) != (broker.host, broker.port):
            return None
        self._bootstrap = None
        return opened

    def _connect(self, host: str, port: int, advertised: Broker | None = None) -> Connection:
        place = f"{host}:{port}"
        attempt = self._attempts.get(place, 0) + 1
        self._attempts[place] = attempt
        opened = Connection(host, port, self.settings, attempt=attempt)
        try:
            opened.connect()
        except ConnectionFailure as failure:
            opened.close()
            if advertised is not None:
                raise ConnectionFailure(
                    f"{failure.message} The cluster says broker {advertised.node_id} is there.",
                    address=place,
                    next_step="If that address is wrong for this machine, correct the broker's "
                    "advertised.listeners.",
                ) from None
            raise
        except BaseException:
            opened.close()
            raise
        self._attempts[place] = 0
        return opened

    def any_connection(self) -> Connection:
        """A connection to whichever broker can be had, the open ones first."""
        with self._lock:
            if self._closed:
                raise ClosedError("The client is closed.")
            for (_node, purpose), opened in list(self._connections.items()):
                if not purpose and not opened.closed:
                    return opened
            if self._bootstrap is not None and not self._bootstrap.closed:
                return self._bootstrap
            return self._connect_any()

    def _connect_any(self) -> Connection:
        started = time.monotonic()
        backoff = self._backoff()
        while True:
            failures: list[ConnectionFailure] = []
            for node_id in sorted(self.metadata.brokers, key=lambda _id: random.random()):
                try:
                    return self.connection(node_id)
                except ConnectionFailure as failure:
                    failures.append(failure)
            for host, port in self.settings.addresses():
                try:
                    self._bootstrap = self._connect(host, port)
                    return self._bootstrap
                except ConnectionFailure as failure:
                    failures.append(failure)
            waited_ms = (time.monotonic() - started) * 1000
            if waited_ms >= self.patience_ms:
                raise NoBrokerReachable(failures, int(waited_ms))
            time.sleep(backoff.next_ms() / 1000)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for opened in self._connections.values():
                opened.close()
            self._connections.clear()
            if self._bootstrap is not None:
                self._bootstrap.close()
                self._bootstrap = None

    # -- metadata

    def refresh(
        self, topics: Iterable[str] | None = (), *, allow_auto_create: bool = False
    ) -> dict[str, TopicInfo]:
        """Ask for metadata: of no topic, of those named, or (None) of all. One attempt."""
        from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

        if self.asks_controllers:
            self._refresh_controllers()
            return {}
        with self._lock:
            opened = self.any_connection()
            names = None if topics is None else sorted(set(topics))
            version = opened.choose_version(MetadataRequest())
            if names is not None and not names and version == 0:
                names = None
            request = MetadataRequest(
                topics=(
                    []
                    if names is None and version == 0
                    else None
                    if names is None
                    else [MetadataRequestTopic(name=n) for n in names]
                ),
                allow_auto_topic_creation=allow_auto_create or version < 4,
            )
            response = opened.request(request, version=version, what="the cluster's metadata")
            self.metadata.update(response, time.monotonic() * 1000, all_topics=names is None)
            self._adopt_bootstrap()
            wanted = self.metadata.topics if names is None else names
            return {n: self.metadata.topics[n] for n in wanted if n in self.metadata.topics}

    def _refresh_controllers(self) -> None:
        """Controllers know no topics for clients, but they name each other."""
        from barnabas.wire.messages.describe_cluster import DescribeClusterRequest

        with self._lock:
            request = DescribeClusterRequest(endpoint_type=2)
            response = self.any_connection().request(request, what="the controllers")
            if response.error_code != ErrorCode.NONE:
                raise broker_error(response.error_code, response.error_message)
            self.metadata.brokers = {
                b.broker_id: Broker(b.broker_id, b.host, b.port, b.rack) for b in response.brokers
            }
            self.metadata.cluster_id = response.cluster_id
            self.metadata.controller_id = response.controller_id
            self._adopt_bootstrap()

    def _adopt_bootstrap(self) -> None:
        """The bootstrap connection becomes the connection of the broker it turned out to be."""
        opened = self._bootstrap
        if opened is None:
            return
        for broker in self.metadata.brokers.values():
            if (opened.host, opened.port) == (broker.host, broker.port):
                if (broker.node_id, "") not in self._connections:
                    self._connections[(broker.node_id, "")] = opened
                    self._bootstrap = None
                return

    def topics(
        self,
        names: Sequence[str],
        *,
        allow_auto_create: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, TopicInfo]:
        """Metadata of these topics, once every one of them has leaders; unknown ones raise."""

        def attempt() -> dict[str, TopicInfo]:
            found = self.refresh(names, allow_auto_create=allow_auto_create)
            for name in names:
                topic = found.get(name)
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code
                if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise broker_error(code, "There is no such topic.", subject=f"topic {name}")
                if code != ErrorCode.NONE:
                    raise broker_error(code, subject=f"topic {name}")
            return found

        def worth_another_try(error: ClientError) -> bool:
            if isinstance(error, BrokerError):
                if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    return allow_auto_create
                return error.retriable
            return error.retriable

        return self.retry(
            f"metadata of {', '.join(names)}",
            attempt,
            timeout_ms=timeout_ms,
            again=worth_another_try,
        )

    def leader(self, partition: TopicPartition) -> int:
        """The leader's node id; LEADER_NOT_AVAILABLE when there is none (retriable)."""
        topic, index = partition
        node_id = self.metadata.leader(topic, index)
        if node_id < 0:
            self.refresh([topic])
            node_id = self.metadata.leader(topic, index)
        if node_id < 0:
            found = self.metadata.topics.get(topic)
            if found is None or found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject=f"topic {topic}")
            if index not in found.partitions:
                raise broker_error(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"The topic has {len(found.partitions)} partitions.",
                    subject=f"{topic}-{index}",
                )
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, subject=f"{topic}-{index}")
        return node_id

    def controller(self) -> int:
        """The broker to send changes of the cluster to."""
        if self.metadata.controller_id not in self.metadata.brokers:
            self.refresh()
        if self.metadata.controller_id in self.metadata.brokers:
            return self.metadata.controller_id
        if not self.metadata.brokers:
            raise broker_error(ErrorCode.BROKER_NOT_AVAILABLE, "The cluster names no broker yet.")
        return next(iter(self.metadata.brokers))

    # -- coordinators

    def coordinator(self, key: str, kind: int = GROUP) -> int:
        """The node id of the coordinator of a group or transactional id. One attempt."""
        from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest

        known = self._coordinators.get((key, kind))
        if known is not None and known in self.metadata.brokers:
            return known
        if not self.metadata.brokers:
            self.refresh()
        opened = self.any_connection()
        version = opened.choose_version(FindCoordinatorRequest())
        if version >= 4:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        else:
            request = FindCoordinatorRequest(key=key, key_type=kind)
        what = f"the coordinator of {'group' if kind == GROUP else 'transactional id'} {key!r}"
        response = opened.request(request, version=version, what=what)
        answer = response.coordinators[0] if version >= 4 else response
        if answer.error_code != ErrorCode.NONE:
            raise broker_error(answer.error_code, answer.error_message, subject=what)
        if answer.node_id not in self.metadata.brokers:
            self.metadata.add_broker(Broker(answer.node_id, answer.host, answer.port))
        if len(self._coordinators) >= MAX_CACHED_COORDINATORS:
            self._coordinators.clear()
        self._coordinators[(key, kind)] = answer.node_id
        return int(answer.node_id)

    def forget_coordinator(self, key: str, kind: int = GROUP) -> None:
        self._coordinators.pop((key, kind), None)

    # -- the retry loop

    def _backoff(self) -> Backoff:
        first, most = self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms
        return Backoff(first, most, random.random)

    def retry(
        self,
        what: str,
        attempt: Callable[[], T],
        *,
        timeout_ms: int | None = None,
        again: Callable[[ClientError], bool] | None = None,
    ) -> T:
        """Repeat `attempt` while its error is retriable and there is time."""
        limit_ms = self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + limit_ms / 1000
        backoff = self._backoff()
        while True:
            try:
                return attempt()
            except NoBrokerReachable:
                if not self.metadata.brokers or time.monotonic() >= deadline:
                    raise
                pause_s = backoff.next_ms() / 1000
            except ClientError as error:
                worth_it = error.retriable if again is None else again(error)
                if not worth_it:
                    raise
                pause_s = backoff.next_ms() / 1000
                if time.monotonic() + pause_s >= deadline:
                    raise RequestTimeout(what, limit_ms, last=error) from error
                # The cluster may name another controller than one that cannot be reached.
                if not isinstance(error, BrokerError) or error.code.invalidates_metadata:
                    self.metadata.controller_id = -1
            time.sleep(pause_s)

    def call_controller(self, request: Any, what: str, *, timeout_ms: int | None = None) -> Any:
        """Send to the controller; a moved controller is looked up again."""

        def attempt() -> Any:
            response = self.connection(self.controller()).request(request, what=what)
            code = getattr(response, "error_code", 0)
            if code == ErrorCode.NOT_CONTROLLER:
                raise broker_error(code)
            return response

        return self.retry(what, attempt, timeout_ms=timeout_ms)

    def call_any(self, request: Any, what: str, *, highest: int | None = None) -> Any:
        """Send to any broker."""
        return self.retry(
            what, lambda: self.any_connection().request(request, what=what, highest=highest)
        )

    def call_node(
        self, node_id: int, request: Any, what: str, *, timeout_ms: int | None = None
    ) -> Any:
        """Send to one broker."""
        return self.retry(
            what,
            lambda: self.connection(node_id).request(request, what=what, timeout_ms=timeout_ms),
            timeout_ms=timeout_ms,
        )

    def call_coordinator(
        self,
        group: str,
        request: Any,
        what: str,
        *,
        code_of: Callable[[Any], int],
        highest: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """Send to a group's coordinator, following it when it moves or still loads."""

        def attempt() -> Any:
            node_id = self.coordinator(group)
            try:
                response = self.connection(node_id).request(request, what=what, highest=highest)
            except ClientError:
                self.forget_coordinator(group)
                raise
            code = code_of(response)
            if code in (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ):
                if code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    self.forget_coordinator(group)
                raise broker_error(code, subject=f"group {group}")
            return response

        return self.retry(what, attempt, timeout_ms=timeout_ms)
