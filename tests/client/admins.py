"""Both admin clients as one kind of object, so that a test runs against each."""

from __future__ import annotations

import asyncio
from typing import Any

from barnabas.client.admin import Admin, AsyncAdmin

KINDS = ["plain", "asyncio"]


class LoopedAdmin:
    """An AsyncAdmin whose coroutines are run to their end on a loop of its own."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._loop = asyncio.new_event_loop()

        async def make() -> AsyncAdmin:
            return AsyncAdmin(options)

        self._admin = self._loop.run_until_complete(make())

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._admin, name)
        if not callable(found):
            return found
        return lambda *args, **more: self._loop.run_until_complete(found(*args, **more))

    def __enter__(self) -> LoopedAdmin:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._loop.run_until_complete(self._admin.close())
        self._loop.close()


def make_admin(kind: str, **options: Any) -> Any:
    return Admin(options) if kind == "plain" else LoopedAdmin(options)
