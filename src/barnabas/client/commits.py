"""Offset commits of a consumer, as a member of its group or from outside.

`core/commits.py` decides what is sent when; here it is taken to the coordinator. One coroutine runs as
long as there is something to commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.client.cluster import Cluster
from barnabas.client.core.commits import HIGHEST_VERSION, Commits, Committed, Offsets
from barnabas.client.core.membership import Member
from barnabas.client.errors import ClientError, ClosedError
from barnabas.client.reactor import Future
from barnabas.client.settings import ConsumerSettings
from barnabas.wire.errors import ErrorCode

GROUP_PURPOSE: Final = "group"
"""The connection for short requests; joins wait long for their answers and have their own."""

_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class GroupCommits:
    """`member` is who commits, None for a consumer that was assigned its partitions by hand."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        member: Callable[[], Member | None],
        told: Callable[[], object],
    ) -> None:
        assert settings.group_id is not None
        self.cluster = cluster
        self.group_id: str = settings.group_id
        self._settings = settings
        self._member = member
        self._told = told
        self._running = False
        self._woken: Future[None] | None = None
        self._idle: list[Future[None]] = []
        self._commits = Commits(
            self.group_id,
            settings.group_instance_id,
            cluster.backoff(),
            identity=self._identity,
            refusal=self._refusal,
            owned=lambda: None if (known := member()) is None else known.owned,
        )

    @property
    def idle(self) -> bool:
        return self._commits.idle

    def _identity(self) -> tuple[str, int]:
        member = self._member()
        return ("", -1) if member is None else member.identity

    def _refusal(self) -> ClientError | None:
        member = self._member()
        return None if member is None else member.refuses_commit()

    # -- committing

    def add(self, offsets: Offsets, done: Committed, timeout_ms: float | None = None) -> None:
        """Commit; `done` is told the outcome on the reactor, in the order of these calls."""
        if timeout_ms is None:
            timeout_ms = self._settings.default_api_timeout_ms
        self._commits.add(self.cluster.reactor.now(), offsets, timeout_ms, done)
        self.advance()

    async def commit(self, offsets: Offsets, timeout_ms: float | None = None) -> None:
        """Commit, after all commits that were added before, and wait for the outcome."""
        if not offsets:
            return
        future: Future[None] = self.cluster.reactor.future()

        def done(error: ClientError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.add(offsets, done, timeout_ms)
        await future

    async def drained(self, timeout_s: float) -> bool:
        """Wait until everything that was added is decided."""
        if self.idle:
            return True
        reactor = self.cluster.reactor
        future: Future[None] = reactor.future()
        self._idle.append(future)
        timer = reactor.call_at(reactor.now() + timeout_s, lambda: _set(future))
        try:
            await future
        finally:
            timer.cancel()
        return self.idle

    def partitions_lost(self, partitions: frozenset[tuple[str, int]]) -> None:
        self._commits.partitions_lost(partitions)
        self.advance()

    def close(self) -> None:
        self._commits.close(ClosedError("The consumer was closed before the offsets were stored."))
        self.advance()

    # -- the coroutine

    def advance(self) -> None:
        """Something changed that commits may have waited for."""
        if self._woken is not None:
            _set(self._woken)
        if not self._running and not self.idle:
            self._running = True
            self.cluster.reactor.spawn(self._run())
        if self.idle:
            waiting, self._idle = self._idle, []
            for future in waiting:
                _set(future)

    async def _run(self) -> None:
        reactor = self.cluster.reactor
        try:
            while not self.idle:
                request = self._commits.next_request(reactor.now())
                if request is not None:
                    await self._send(request)
                    self._told()
                elif not self.idle:
                    await self._sleep(self._commits.due())
        finally:
            self._running = False
        self.advance()

    async def _sleep(self, until: float | None) -> None:
        reactor = self.cluster.reactor
        woken = self._woken = reactor.future()
        timer = reactor.call_at(
            reactor.now() + 1.0 if until is None else until, lambda: _set(woken)
        )
        try:
            await woken
        finally:
            timer.cancel()
            self._woken = None

    async def _send(self, request: object) -> None:
        cluster, reactor = self.cluster, self.cluster.reactor
        sent_as = self._commits.sent_as
        try:
            node_id = await cluster.coordinator(self.group_id)
            response = await cluster.request(
                node_id,
                request,
                what=f"the commit of offsets of group {self.group_id}",
                purpose=GROUP_PURPOSE,
                highest=HIGHEST_VERSION,
                timeout_ms=self._settings.request_timeout_ms,
            )
        except ClientError as error:
            cluster.forget_coordinator(self.group_id)
            self._commits.failed(reactor.now(), error)
            return
        code = self._commits.answered(reactor.now(), response)
        if code in _MOVED:
            cluster.forget_coordinator(self.group_id)
        member = self._member()
        if code and member is not None:
            member.commit_refused(reactor.now(), sent_as, code)


def _set(future: Future[None]) -> None:
    if not future.done():
        future.set_result(None)
