"""What every part of the admin client shares: the cluster, and calls spread over brokers.

A call about many partitions or groups becomes one request for each broker concerned. Items whose
error is retriable are asked again, the others keep the answer they got: every item ends with a value
or an exception, and one bad item never hides the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.errors import (
    BrokerError,
    ClientError,
    NoBrokerReachable,
    NotFoundError,
    RequestTimeout,
)

Item = TypeVar("Item", bound=Hashable)
Answer = TypeVar("Answer")


class AdminBase:
    """Holds the cluster. `timeout_ms` bounds a call with all its retries."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.timeout_ms = cluster.settings.default_api_timeout_ms

    async def ask_any(self, request: Any, *, what: str) -> Any:
        """One request, as the wire has it, to any node; for what has no call of its own."""
        return await self.cluster.request(await self.cluster.any_node(), request, what=what)

    async def spread(
        self,
        items: Iterable[Item],
        node_of: Callable[[Item], Awaitable[int]],
        ask: Callable[[int, list[Item]], Awaitable[dict[Item, Any]]],
        forget: Callable[[Item], None],
        what: str,
    ) -> dict[Item, Any]:
        """Ask the right broker about each item; values in the answer may be exceptions."""
        deadline = self.cluster.reactor.now() + self.timeout_ms / 1000
        backoff = self.cluster.backoff()
        answers: dict[Item, Any] = {}
        left = list(dict.fromkeys(items))
        while left:
            by_node: dict[int, list[Item]] = {}
            again: list[Item] = []
            for item in left:
                try:
                    by_node.setdefault(await node_of(item), []).append(item)
                except ClientError as error:
                    if isinstance(error, NoBrokerReachable) and not self.cluster.had_contact:
                        raise
                    answers[item] = error
                    if error.retriable and not isinstance(error, NotFoundError):
                        again.append(item)
            for node_id, asked in by_node.items():
                try:
                    answers.update(await ask(node_id, asked))
                except ClientError as error:
                    answers.update(dict.fromkeys(asked, error))
                again.extend(i for i in asked if _retriable(answers.get(i)))
            left = again
            if not left:
                break
            pause_s = backoff.next_ms() / 1000
            if self.cluster.reactor.now() + pause_s >= deadline:
                for item in left:
                    last = answers[item]
                    answers[item] = RequestTimeout(f"{what} ({item})", self.timeout_ms, last=last)
                break
            for item in left:
                forget(item)
            await self.cluster.reactor.sleep(pause_s)
        return answers


def _retriable(answer: Any) -> bool:
    return isinstance(answer, ClientError) and answer.retriable


def raise_first(answers: dict[Any, Any]) -> None:
    """Raise the first exception among the answers, the final ones before the timeouts."""
    errors = [a for a in answers.values() if isinstance(a, ClientError)]
    errors.sort(key=lambda e: not isinstance(e, BrokerError))
    if errors:
        raise errors[0]
