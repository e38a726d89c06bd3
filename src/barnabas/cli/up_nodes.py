"""`barnabas up --nodes N`: a cluster on this machine, one process a node.

More cores means more nodes, so each has a process of its own: the same that `barnabas server start`
gives, from the properties file that stands beside its data. This process only starts them, tells
where they are, and stops them together. A node that dies is reported; the others go on, as they
would anywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.exits import FAILED, CommandError

if TYPE_CHECKING:
    from barnabas.server.local_cluster import NodePlan

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 60.0


class _Child:
    def __init__(self, plan: NodePlan, process: asyncio.subprocess.Process) -> None:
        self.plan = plan
        self.process = process
        self.facts: dict[str, Any] = {}


def run_nodes(
    *,
    nodes: int,
    data: str,
    host: str,
    port: int,
    overrides: dict[str, str],
    log_level: str,
    format_name: str,
) -> None:
    from barnabas.config.definition import ConfigError
    from barnabas.raft.errors import StorageError
    from barnabas.server.local_cluster import plan_cluster

    try:
        plans = plan_cluster(data, nodes, host=host, first_port=port, overrides=overrides)
    except (ConfigError, OSError, StorageError, ValueError) as error:
        raise CommandError(str(error), FAILED) from error
    asyncio.run(_run(plans, data, overrides, log_level, format_name))


async def _run(
    plans: list[NodePlan],
    data: str,
    overrides: dict[str, str],
    log_level: str,
    format_name: str,
) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    children: list[_Child] = []
    try:
        for plan in plans:
            children.append(await _start(plan, overrides, log_level))
        failed = await _until_up(children, asked)
        if failed is not None:
            raise CommandError(failed, FAILED)
        if not asked.is_set():
            _announce(children, data, format_name)
            await _watch(children, asked)
    finally:
        await _stop(children)


async def _start(plan: NodePlan, overrides: dict[str, str], log_level: str) -> _Child:
    arguments = ["server", "start", plan.file, "--format", "json", "--log-level", log_level]
    for name, value in overrides.items():
        arguments += ["--override", f"{name}={value}"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "barnabas.cli.main",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        # Ctrl-C reaches this process alone, which stops the others in order.
        start_new_session=True,
    )
    return _Child(plan, process)


async def _until_up(children: list[_Child], asked: asyncio.Event) -> str | None:
    """Wait until every node accepts requests; gives the reason if one does not."""
    stop = asyncio.ensure_future(asked.wait())
    reads: dict[asyncio.Future[Any], _Child] = {
        asyncio.ensure_future(_facts(child)): child for child in children
    }
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            pending: set[asyncio.Future[Any]] = {stop, *reads}
            while not asked.is_set() and len(pending) > 1:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for each in done - {stop}:
                    child = reads[each]
                    if not each.result():
                        return f"node {child.plan.node_id} did not start; its reason is above"
    except TimeoutError:
        return f"the nodes did not start within {START_TIMEOUT_S:.0f} s"
    finally:
        for each in (stop, *reads):
            each.cancel()
    return None


async def _facts(child: _Child) -> bool:
    """What the node says of itself when it is up; False if it ends before."""
    output = child.process.stdout
    assert output is not None
    text = ""
    while line := await output.readline():
        text += line.decode(errors="replace")
        with contextlib.suppress(ValueError):
            child.facts = json.loads(text)
            return True
    return False


async def _watch(children: list[_Child], asked: asyncio.Event) -> None:
    """Until somebody asks to stop or no node is left; a node that dies is told."""
    stop = asyncio.ensure_future(asked.wait())
    ends: dict[asyncio.Future[Any], _Child] = {
        asyncio.ensure_future(child.process.wait()): child for child in children
    }
    pending: set[asyncio.Future[Any]] = {stop, *ends}
    while not asked.is_set() and len(pending) > 1:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for each in done - {stop}:
            child = ends[each]
            print(
                f"node {child.plan.node_id} has ended ({_ending(each.result())}); start it again "
                f"with: barnabas server start {child.plan.file}",
                file=sys.stderr,
                flush=True,
            )
    stop.cancel()
    if not asked.is_set():
        raise CommandError("no node is left", FAILED)


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"


async def _stop(children: list[_Child]) -> None:
    running = [child for child in children if child.process.returncode is None]
    for child in running:
        with contextlib.suppress(ProcessLookupError):
            child.process.terminate()
    if not running:
        return
    waits = [asyncio.ensure_future(child.process.wait()) for child in running]
    _, late = await asyncio.wait(waits, timeout=STOP_TIMEOUT_S)
    if late:
        for child in running:
            if child.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    child.process.kill()
        await asyncio.wait(waits)


def _announce(children: list[_Child], data: str, format_name: str) -> None:
    from barnabas.cli.up import this_command

    bootstrap = ",".join(child.facts["bootstrap"] for child in children)
    cluster_id = children[0].facts["cluster_id"]
    nodes = [
        {
            "node_id": child.plan.node_id,
            "bootstrap": child.facts["bootstrap"],
            "listeners": child.facts["listeners"],
            "data": child.facts["data"],
            "pid": child.process.pid,
        }
        for child in children
    ]
    if format_name != "text":
        from barnabas.cli.output import Output

        Output(format_name).data(
            {"bootstrap": bootstrap, "cluster_id": cluster_id, "data": data, "nodes": nodes}
        )
        sys.stdout.flush()
        return
    command = this_command()
    lines = [f"Barnabas is up: bootstrap={bootstrap}"]
    lines += [
        f"  node {node['node_id']}      {', '.join(node['listeners'])}  pid {node['pid']}"
        for node in nodes
    ]
    lines += [
        f"  data        {os.path.abspath(data)}",
        f"  cluster id  {cluster_id}",
        "",
        "Try in another terminal:",
        f"  {command} topic create orders --partitions 3 --replication-factor "
        f"{min(len(nodes), 3)} -b {bootstrap}",
        f"  {command} cluster status -b {bootstrap}",
        "",
    ]
    print("\n".join(lines), flush=True)
