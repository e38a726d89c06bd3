"""A broker that restarts and one that stands still, under load from both faces of the clients.

What must hold is judged by `chaos.judge` and, while it reads, by `OwnGroup`: nothing lost, doubled or
reordered. Leaders that move between three nodes are in `tests/peers/test_cluster_chaos.py`.
"""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack

from tests.peers.chaos import judge
from tests.peers.node_cluster import until
from tests.peers.own_load import KINDS, OwnGroup, OwnLoad
from tests.peers.python.targets import Target
from tests.peers.test_crash import PARTITIONS
from tests.peers.topics import create_topic

PROGRESS = 200
LONGER_THAN_A_REQUEST_MAY_TAKE_S = 2.0


def test_a_restart_and_a_standstill(target: Target, name: str) -> None:
    topics = {kind: f"{name}.{kind}" for kind in KINDS}
    for topic in topics.values():
        create_topic(target.bootstrap, topic, PARTITIONS)
    with ExitStack() as stack:
        loads = {kind: OwnLoad(target.bootstrap, topic, kind) for kind, topic in topics.items()}
        groups = {kind: OwnGroup(target.bootstrap, topic, kind) for kind, topic in topics.items()}
        for each in (*loads.values(), *groups.values()):
            stack.callback(each.stopping.set)

        def goes_on() -> None:
            for kind in KINDS:
                load, group = loads[kind], groups[kind]
                records, commits = load.total() + PROGRESS, group.commits
                until(lambda load=load, n=records: load.total() >= n, what=str(load.failed))
                until(lambda group=group, n=commits: group.commits > n, what=str(group.failed))

        goes_on()
        target.system.stop()
        target.system.restart()
        goes_on()
        target.signal(signal.SIGSTOP)
        threading.Event().wait(LONGER_THAN_A_REQUEST_MAY_TAKE_S)
        target.signal(signal.SIGCONT)
        goes_on()
        for kind, topic in topics.items():
            judge(target.bootstrap, topic, loads[kind], groups[kind])
