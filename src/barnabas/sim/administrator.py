"""An administrator: makes topics and deletes them, moves replicas, gives leaderships back.

Whatever is answered with success must be so on every node in the end; what is not answered may have been
done or not. Moves are asked for at any moment, also while another one is under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.sim.client import ClientProcess
from barnabas.sim.plan import TOPIC
from barnabas.wire.errors import ErrorCode
from barnabas.wire.message import Message
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest

if TYPE_CHECKING:
    from barnabas.sim.simulation import Simulation

MOST_TOPICS = 4
TIMEOUT_MS = 2_000
PAUSE_S = 4.0
RETRY_S = 0.3
PREFERRED = 0


async def administrate(client: ClientProcess, simulation: Simulation) -> None:
    """Now and then something, as long as the faults last."""
    number = 0
    while not simulation.faults.are_over:
        await client.rest(PAUSE_S)
        kind = client.rng.choice(("create", "create", "delete", "move", "move", "elect"))
        if kind == "create" and number < MOST_TOPICS:
            await create_topic(client, simulation, f"{TOPIC}-{number}")
            number += 1
        elif kind == "delete" and simulation.history.topics:
            await _delete_topic(client, simulation)
        elif kind == "move":
            await _move(client, simulation)
        elif kind == "elect":
            await _ask(
                client, ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None), 2
            )


async def create_topic(client: ClientProcess, simulation: Simulation, name: str) -> None:
    plan = simulation.plan
    least = CreatableTopicConfig(name="min.insync.replicas", value=str(plan.min_insync_replicas))
    topic = CreatableTopic(
        name=name,
        num_partitions=plan.partitions,
        replication_factor=plan.replication_factor,
        configs=[least],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    while True:
        answer = await _ask(client, request, 7)
        if answer is not None:
            (created,) = answer.topics
            if created.error_code == ErrorCode.NONE:
                simulation.history.topic_created(name, created.topic_id)
                return
            if created.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                return
        await client.rest(RETRY_S)


async def _delete_topic(client: ClientProcess, simulation: Simulation) -> None:
    """One of those that were made on the way; tried until it is certainly gone."""
    history = simulation.history
    names = [name for name in history.topics if name != TOPIC]
    if not names:
        return
    name = client.rng.choice(names)
    topic_id = history.topics[name]
    history.topic_may_go(name)
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=TIMEOUT_MS
    )
    while True:
        answer = await _ask(client, request, 6)
        if answer is not None and answer.responses[0].error_code in (
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ):
            history.topic_deleted(name)
            return
        await client.rest(RETRY_S)


async def _move(client: ClientProcess, simulation: Simulation) -> None:
    """A partition gets its replicas in another order or on other nodes; or a move is called off."""
    plan = simulation.plan
    replicas = client.rng.sample(range(len(plan.nodes)), plan.replication_factor)
    partition = ReassignablePartition(
        partition_index=client.rng.randrange(plan.partitions),
        replicas=None if client.rng.random() < 0.2 else replicas,
    )
    topic = ReassignableTopic(name=TOPIC, partitions=[partition])
    await _ask(client, AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 1)


async def _ask(client: ClientProcess, request: Message, version: int) -> Any:
    """The answer of any broker; None if there was none."""
    try:
        return await (await client.to_any()).ask(request, version)
    except OSError:
        return None
