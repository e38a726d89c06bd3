"""The cluster as a client sees it: metadata, the ways to its brokers, coordinators, retries.

Everything that must find the right broker and try again goes through here. There are two kinds of
calls. `send` is the hot one: it takes a request to a broker and calls back. The others are coroutines;
`retry` is their one loop, which repeats an attempt while its error is retriable, with backoff, until
the time is up, and then says what it waited for and what the last attempt answered.

The bootstrap servers have the node ids -1, -2, ... until the cluster has said who they are; their
connections then become those of the brokers. When no broker that the cluster named can be reached, when
for long none of them answered for metadata, or when one of them says so, the bootstrap servers are asked
again (`metadata.recovery.strategy`).

The first contact is different: when none of the bootstrap servers can be reached it fails at once,
because for a person at a prompt a wrong address is likelier than a broker that is just starting
(`patience_ms` changes that).

Metadata of the topics that were given to `watch` is kept fresh: it is asked for when it has become old,
and soon after `request_update`, however many call that.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from barnabas.client.connection import Done
from barnabas.client.core.backoff import Backoff
from barnabas.client.core.metadata import Broker, ClusterMetadata, TopicInfo, TopicPartition
from barnabas.client.core.versions import BrokerVersions
from barnabas.client.errors import (
    AuthenticationError,
    BrokerError,
    BrokerUnavailableError,
    ClientError,
    ClosedError,
    ConnectionFailure,
    NoBrokerReachable,
    RequestTimeout,
    TlsError,
    broker_error,
)
from barnabas.client.options import INT_MAX
from barnabas.client.reactor import Future, Reactor, Timer
from barnabas.client.route import Route
from barnabas.client.security import Security
from barnabas.client.settings import ClientSettings
from barnabas.wire.errors import ErrorCode

T = TypeVar("T")

logger = logging.getLogger(__name__)

GROUP, TRANSACTION = 0, 1
MAX_CACHED_COORDINATORS: Final = 10_000
LONGEST_IDLE_CHECK_S: Final = 60.0


class Cluster:
    """One for each client. Belongs to its reactor."""

    def __init__(
        self,
        settings: ClientSettings,
        reactor: Reactor,
        *,
        patience_ms: float = 0,
        most_retries: int = INT_MAX,
    ) -> None:
        self.settings = settings
        self.reactor = reactor
        self.most_retries = most_retries
        self.patience_ms = patience_ms
        self.security = Security(settings)
        self.metadata = ClusterMetadata()
        self.updated: list[Callable[[], object]] = []
        self.closed = False
        self.had_contact = False
        """Whether the cluster ever said who its brokers are. Before that, not to reach anybody is
        likely a mistake in an address; after it, it is likely to pass."""
        self._bootstrap = settings.addresses()
        self._routes: dict[tuple[int, str], Route] = {}
        self._coordinators: dict[tuple[str, int], int] = {}
        self._watched: Counter[str] = Counter()
        self._updating: Future[None] | None = None
        self._update_wanted = False
        self._updated_at = float("-inf")
        self._failing_since: float | None = None
        self._age_timer: Timer | None = None
        self._idle_timer: Timer | None = None

    @property
    def asks_controllers(self) -> bool:
        """Whether the nodes that this client knows are the controllers, not the brokers."""
        return bool(self.settings.bootstrap_controllers)

    # -- routes

    def address_of(self, node_id: int) -> tuple[str, int] | None:
        if node_id < 0:
            return self._bootstrap[-1 - node_id] if -node_id <= len(self._bootstrap) else None
        broker = self.metadata.brokers.get(node_id)
        return None if broker is None else (broker.host, broker.port)

    def _route(self, node_id: int, purpose: str = "") -> Route:
        route = self._routes.get((node_id, purpose))
        if route is None:
            route = self._routes[(node_id, purpose)] = Route(self, node_id, purpose)
            if self.closed:
                route.close()
            elif self._idle_timer is None and self.settings.connections_max_idle_ms > 0:
                self._watch_idle()
        return route

    def send(
        self,
        node_id: int,
        request: Any,
        done: Done,
        *,
        purpose: str = "",
        version: int | None = None,
        highest: int | None = None,
        timeout_ms: float | None = None,
        answered: bool = True,
        what: str | None = None,
    ) -> None:
        """Take a request to a broker, in the highest version that both know (at most `highest`).

        `done` is called exactly once, never before this returns. Different purposes never share a
        connection; within one, requests are answered in order.
        """
        route = self._routes.get((node_id, purpose)) or self._route(node_id, purpose)
        route.send(request, done, version, highest, timeout_ms, answered, what)

    def versions(self, node_id: int, purpose: str = "") -> BrokerVersions | None:
        """What a broker offers; None while there is no connection to it."""
        route = self._routes.get((node_id, purpose))
        return None if route is None else route.versions

    def in_flight(self, node_id: int, purpose: str = "") -> int:
        route = self._routes.get((node_id, purpose))
        return 0 if route is None else route.in_flight

    async def connected(self, node_id: int, purpose: str = "") -> BrokerVersions:
        """Wait for a connection to a broker; what it offers."""
        route = self._route(node_id, purpose)
        while True:
            versions = route.versions
            if versions is not None:
                return versions
            if self.closed:
                raise ClosedError("The client is closed.")
            if node_id >= 0 and node_id not in self.metadata.brokers:
                await self.refresh()
            future: Future[None] = self.reactor.future()

            def told(error: ClientError | None, future: Future[None] = future) -> None:
                if future.done():
                    return
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)

            route.when_ready(told)
            await future

    async def any_node(self) -> int:
        """The id of a broker to which there is a connection."""
        if self.closed:
            raise ClosedError("The client is closed.")
        known = self.metadata.brokers
        ready = [
            route
            for (node_id, purpose), route in self._routes.items()
            if not purpose and route.ready and (node_id < 0 or node_id in known)
        ]
        if ready:
            return min(ready, key=lambda route: route.in_flight).node_id
        started = self.reactor.now()
        backoff = self.backoff()
        while True:
            failures: list[ConnectionFailure] = []
            for node_id in self._candidates():
                try:
                    await self.connected(node_id)
                    return node_id
                except ConnectionFailure as failure:
                    failures.append(failure)
            waited_ms = (self.reactor.now() - started) * 1000
            refusals = [f for f in failures if isinstance(f, (TlsError, AuthenticationError))]
            if refusals and len(refusals) == len(failures):
                raise refusals[0]  # they will not change their mind
            if waited_ms >= self.patience_ms:
                raise NoBrokerReachable(failures, int(waited_ms))
            await self.reactor.sleep(backoff.next_ms() / 1000)

    async def offered(self, node_id: int | None = None) -> BrokerVersions:
        """What a broker (any by default) offers, with retries."""

        async def attempt() -> BrokerVersions:
            return await self.connected(await self.any_node() if node_id is None else node_id)

        return await self.retry("a broker", attempt)

    def _candidates(self) -> list[int]:
        known = sorted(self.metadata.brokers, key=lambda _id: self.reactor.random())
        if known and self.settings.metadata_recovery_strategy == "none":
            return known
        return known + [-1 - index for index in range(len(self._bootstrap))]

    def _watch_idle(self) -> None:
        limit_s = self.settings.connections_max_idle_ms / 1000
        pause_s = min(max(limit_s / 2, 0.1), LONGEST_IDLE_CHECK_S)
        self._idle_timer = self.reactor.call_at(self.reactor.now() + pause_s, self._close_idle)

    def _close_idle(self) -> None:
        self._watch_idle()
        limit = self.reactor.now() - self.settings.connections_max_idle_ms / 1000
        for route in list(self._routes.values()):
            if route.ready and not route.in_flight and route.last_used_at < limit:
                route.drop()

    def drop(self, purpose: str) -> None:
        """End the connections of a purpose; they are made again when they are needed."""
        for (_, its_purpose), route in list(self._routes.items()):
            if its_purpose == purpose:
                route.drop()

    def close(self) -> None:
        """End all connections. Requests that are open are told so."""
        if self.closed:
            return
        self.closed = True
        for timer in (self._age_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        updating, self._updating = self._updating, None
        if updating is not None:
            updating.cancel()
        for route in list(self._routes.values()):
            route.close()

    def abandon(self) -> None:
        """Closed, but nothing is told to anybody: the connections are another process's."""
        self.closed = True

    @property
    def has_connections(self) -> bool:
        return any(route.ready for route in self._routes.values())

    # -- requests as coroutines

    async def request(
        self,
        node_id: int,
        request: Any,
        *,
        what: str | None = None,
        purpose: str = "",
        version: int | None = None,
        highest: int | None = None,
        timeout_ms: float | None = None,
    ) -> Any:
        """The answer of one broker. One attempt."""
        if node_id >= 0 and node_id not in self.metadata.brokers:
            await self.refresh()
        if timeout_ms is None:
            timeout_ms = min(self.settings.request_timeout_ms, self.settings.default_api_timeout_ms)
        future: Future[Any] = self.reactor.future()

        def answered(response: Any, error: ClientError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(response)
            else:
                future.set_exception(error)

        self.send(
            node_id,
            request,
            answered,
            purpose=purpose,
            version=version,
            highest=highest,
            timeout_ms=timeout_ms,
            what=what,
        )
        return await future

    async def request_node(
        self, node_id: int, request: Any, *, what: str, timeout_ms: float | None = None
    ) -> Any:
        """The answer of one broker, with retries."""
        return await self.retry(
            what,
            lambda: self.request(node_id, request, what=what, timeout_ms=timeout_ms),
            timeout_ms=timeout_ms,
            again=lambda error: error.retriable and not isinstance(error, BrokerUnavailableError),
        )

    async def request_any(self, request: Any, *, what: str, highest: int | None = None) -> Any:
        """The answer of any broker, with retries."""

        async def attempt() -> Any:
            return await self.request(await self.any_node(), request, what=what, highest=highest)

        return await self.retry(what, attempt)

    async def request_controller(
        self, request: Any, *, what: str, timeout_ms: float | None = None
    ) -> Any:
        """The controller's answer; one that moved is looked up again."""

        async def attempt() -> Any:
            response = await self.request(await self.controller(), request, what=what)
            code = getattr(response, "error_code", 0)
            if code == ErrorCode.NOT_CONTROLLER:
                raise broker_error(code)
            return response

        return await self.retry(what, attempt, timeout_ms=timeout_ms)

    async def request_coordinator(
        self,
        group: str,
        request: Any,
        *,
        what: str,
        code_of: Callable[[Any], int],
        highest: int | None = None,
        timeout_ms: float | None = None,
        purpose: str = "",
        kind: int = GROUP,
    ) -> Any:
        """The answer of a group's coordinator, which is followed when it moves or still loads."""

        async def attempt() -> Any:
            node_id = await self.coordinator(group, kind)
            try:
                response = await self.request(
                    node_id, request, what=what, highest=highest, purpose=purpose
                )
            except ClientError:
                self.forget_coordinator(group, kind)
                raise
            code = code_of(response)
            if code in (
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ):
                if code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    self.forget_coordinator(group, kind)
                raise broker_error(code, subject=f"group {group}")
            return response

        return await self.retry(what, attempt, timeout_ms=timeout_ms)

    # -- the retry loop

    def backoff(self) -> Backoff:
        first, most = self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms
        return Backoff(first, most, self.reactor.random)

    async def retry(
        self,
        what: str,
        attempt: Callable[[], Awaitable[T]],
        *,
        timeout_ms: float | None = None,
        again: Callable[[ClientError], bool] | None = None,
    ) -> T:
        """Repeat `attempt` while its error is retriable and there is time."""
        limit_ms = self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self.reactor.now() + limit_ms / 1000
        backoff = self.backoff()
        retries = 0
        while True:
            try:
                return await attempt()
            except NoBrokerReachable:
                if not self.had_contact or self.reactor.now() >= deadline:
                    raise
                if retries >= self.most_retries:
                    raise
                pause_s = backoff.next_ms() / 1000
            except ClientError as error:
                worth_it = error.retriable if again is None else again(error)
                if not worth_it or retries >= self.most_retries:
                    raise
                pause_s = backoff.next_ms() / 1000
                if self.reactor.now() + pause_s >= deadline:
                    raise RequestTimeout(what, int(limit_ms), last=error) from error
                # The cluster may name another controller than one that cannot be reached.
                if not isinstance(error, BrokerError) or error.code.invalidates_metadata:
                    self.metadata.controller_id = -1
            retries += 1
            await self.reactor.sleep(pause_s)

    # -- metadata

    async def refresh(
        self, topics: Iterable[str] | None = (), *, allow_auto_create: bool = False
    ) -> dict[str, TopicInfo]:
        """Ask for metadata: of no topic, of those named, or (None) of all. One attempt."""
        if self.asks_controllers:
            await self._refresh_controllers()
            return {}
        try:
            names, response = await self._ask_for_metadata(topics, allow_auto_create)
            if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self._may_rebootstrap:
                self._rebootstrap("a broker asked for it")
                names, response = await self._ask_for_metadata(topics, allow_auto_create)
        except (ConnectionFailure, NoBrokerReachable, RequestTimeout):
            self._metadata_failed()
            raise
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code, subject="the cluster's metadata")
        if not response.brokers:
            # A broker that starts or stops may know of none, not even of itself.
            self._metadata_failed()
            raise BrokerUnavailableError("The cluster names no broker yet.")
        self._take_metadata(response, all_topics=names is None)
        wanted = self.metadata.topics if names is None else names
        return {n: self.metadata.topics[n] for n in wanted if n in self.metadata.topics}

    async def _ask_for_metadata(
        self, topics: Iterable[str] | None, allow_auto_create: bool
    ) -> tuple[list[str] | None, Any]:
        from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

        node_id = await self.any_node()
        versions = await self.connected(node_id)
        version = versions.choose_for(MetadataRequest())
        names = None if topics is None else sorted(set(topics))
        if version == 0:
            names = names or None  # no topic cannot be said: an empty list means all
        wire_names = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(
            topics=[] if wire_names is None and version == 0 else wire_names,
            allow_auto_topic_creation=allow_auto_create or version < 4,
        )
        response = await self.request(
            node_id, request, version=version, what="the cluster's metadata"
        )
        return names, response

    @property
    def _may_rebootstrap(self) -> bool:
        return self.settings.metadata_recovery_strategy == "rebootstrap"

    def _metadata_failed(self) -> None:
        now = self.reactor.now()
        if self._failing_since is None:
            self._failing_since = now
        waited_ms = (now - self._failing_since) * 1000
        limit_ms = self.settings.metadata_recovery_rebootstrap_trigger_ms
        if self._may_rebootstrap and self.metadata.brokers and waited_ms >= limit_ms:
            self._rebootstrap(f"no known broker answered for metadata in {int(waited_ms)} ms")

    def _rebootstrap(self, reason: str) -> None:
        """Forget where the brokers are, as a new client would not know it."""
        logger.warning("Beginning again with bootstrap.servers: %s", reason)
        self._failing_since = None
        self.metadata.brokers = {}
        self._coordinators.clear()
        for (node_id, _), route in list(self._routes.items()):
            if node_id >= 0 and not route.in_flight:
                route.drop()

    def _take_metadata(self, response: Any, *, all_topics: bool) -> None:
        self._failing_since = None
        self.had_contact = True
        self._updated_at = self.reactor.now()
        self.metadata.update(response, self._updated_at * 1000, all_topics=all_topics)
        self._learn_places()
        for callback in list(self.updated):
            callback()

    async def _refresh_controllers(self) -> None:
        """Controllers know no topics for clients, but they name each other."""
        from barnabas.wire.messages.describe_cluster import DescribeClusterRequest

        request = DescribeClusterRequest(endpoint_type=2)
        response = await self.request(await self.any_node(), request, what="the controllers")
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code, response.error_message)
        self.metadata.brokers = {
            b.broker_id: Broker(b.broker_id, b.host, b.port, b.rack) for b in response.brokers
        }
        self.metadata.cluster_id = response.cluster_id
        self.metadata.controller_id = response.controller_id
        self.had_contact = True
        self._learn_places()

    def _learn_places(self) -> None:
        """Bootstrap connections become those of the brokers they turned out to be; connections to
        where a broker no longer is, and to brokers that are gone, end once they are idle."""
        by_place = {(b.host, b.port): b.node_id for b in self.metadata.brokers.values()}
        for (node_id, purpose), route in list(self._routes.items()):
            place = route.place
            if node_id < 0:
                known = by_place.get(place) if place is not None else None
                if known is not None and not purpose and (known, "") not in self._routes:
                    del self._routes[(node_id, purpose)]
                    route.node_id = known
                    self._routes[(known, "")] = route
                elif known is not None and route.ready and not route.in_flight:
                    route.drop()
            elif place not in (None, self.address_of(node_id)) and not route.in_flight:
                route.drop()

    def watch(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics fresh; each is given back with `unwatch`."""
        self._watched.update(topics)
        if self._age_timer is None and not self.closed:
            self._check_age()

    def unwatch(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self._watched[topic] -= 1
            if self._watched[topic] <= 0:
                del self._watched[topic]

    def _check_age(self) -> None:
        age_s = self.settings.metadata_max_age_ms / 1000
        now = self.reactor.now()
        if self._watched and self._updated_at > float("-inf") and now >= self._updated_at + age_s:
            self.request_update()
        when = max(self._updated_at + age_s, now + max(age_s / 10, 0.05))
        self._age_timer = self.reactor.call_at(when, self._check_age)

    def request_update(self) -> None:
        """Something looked stale: ask for the watched topics soon."""
        self._update_wanted = True
        if self._updating is None and not self.closed:
            self._updating = self.reactor.spawn(self._update())

    async def _update(self) -> None:
        backoff = self.backoff()
        try:
            while self._update_wanted and not self.closed:
                soonest = self._updated_at + self.settings.retry_backoff_ms / 1000
                pause_s = soonest - self.reactor.now()
                if pause_s > 0:
                    await self.reactor.sleep(pause_s)
                self._update_wanted = False
                try:
                    await self.refresh(list(self._watched))
                except ClosedError:
                    return
                except ClientError as error:
                    logger.debug("Metadata could not be refreshed: %s", error)
                    self._update_wanted = True
                    await self.reactor.sleep(backoff.next_ms() / 1000)
        finally:
            self._updating = None

    async def topics(
        self,
        names: Sequence[str],
        *,
        allow_auto_create: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, TopicInfo]:
        """Metadata of these topics, once every one of them has leaders; unknown ones raise."""

        async def attempt() -> dict[str, TopicInfo]:
            found = await self.refresh(names, allow_auto_create=allow_auto_create)
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

        return await self.retry(
            f"metadata of {', '.join(names)}",
            attempt,
            timeout_ms=timeout_ms,
            again=worth_another_try,
        )

    async def leader(self, partition: TopicPartition) -> int:
        """The leader's node id; LEADER_NOT_AVAILABLE when there is none (retriable)."""
        topic, index = partition
        node_id = self.metadata.leader(topic, index)
        if node_id < 0:
            await self.refresh([topic])
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

    async def controller(self) -> int:
        """The broker to send changes of the cluster to."""
        if self.metadata.controller_id not in self.metadata.brokers:
            await self.refresh()
        if self.metadata.controller_id in self.metadata.brokers:
            return self.metadata.controller_id
        if not self.metadata.brokers:
            raise BrokerUnavailableError("The cluster names no controller yet.")
        return next(iter(self.metadata.brokers))

    # -- coordinators

    async def coordinator(self, key: str, kind: int = GROUP) -> int:
        """The node id of the coordinator of a group or transactional id. One attempt."""
        from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest

        known = self._coordinators.get((key, kind))
        if known is not None and known in self.metadata.brokers:
            return known
        if not self.metadata.brokers:
            await self.refresh()
        node_id = await self.any_node()
        versions = await self.connected(node_id)
        version = versions.choose_for(FindCoordinatorRequest())
        if version >= 4:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        else:
            request = FindCoordinatorRequest(key=key, key_type=kind)
        what = f"the coordinator of {'group' if kind == GROUP else 'transactional id'} {key!r}"
        response = await self.request(node_id, request, version=version, what=what)
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
