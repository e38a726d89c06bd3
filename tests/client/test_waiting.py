"""Who waits for an acknowledgement must not keep others of the same client from working."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

from barnabas.client.errors import RequestTimeout
from barnabas.client.producer import Producer, wait_for


def test_the_lock_is_free_while_a_result_is_waited_for() -> None:
    with Producer(bootstrap_servers="127.0.0.1:1") as producer:
        pump = producer._pump
        producer._engine.hurry = lambda batch: None  # type: ignore[method-assign]
        batch: Any = SimpleNamespace(done=False, topic="t", partition=0)
        ended: list[BaseException] = []

        def wait() -> None:
            try:
                wait_for(pump, producer._engine, batch, 3.0)
            except RequestTimeout as error:
                ended.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        end = time.monotonic() + 10
        while not pump._callers:
            assert time.monotonic() < end, "nobody waits"
            time.sleep(0.001)
        for _ in range(50):
            assert pump.lock.acquire(timeout=1), "the waiting thread keeps the lock"
            pump.lock.release()
            time.sleep(0.001)
        with pump.lock:
            batch.done = True
            pump.wake()
        thread.join(10)
        assert not thread.is_alive()
        assert not ended
