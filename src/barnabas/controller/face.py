"""What brokers may ask of the controller.

Requests and answers are wire messages, so that it makes no difference whether the controller is in
this process or behind a connection. An answer comes after the change is committed; where the active
controller is in this process, also after this node's publisher has been told of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.metadata.image import MetadataImage
    from barnabas.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from barnabas.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from barnabas.wire.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
    )
    from barnabas.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from barnabas.wire.messages.describe_quorum import (
        DescribeQuorumRequest,
        DescribeQuorumResponse,
    )
    from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from barnabas.wire.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from barnabas.wire.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from barnabas.wire.messages.unregister_broker import (
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
    )
    from barnabas.wire.messages.update_features import (
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    )


class Controller(Protocol):
    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""

    @property
    def broker_epoch(self) -> int:
        """The epoch in which this node's broker is registered; -1 before that."""

    def supported_features(self) -> Mapping[str, tuple[int, int]]: ...

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse: ...

    async def delete_topics(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        """The request names topics by `topics` alone, never by `topic_names`."""

    async def create_partitions(
        self, request: CreatePartitionsRequest
    ) -> CreatePartitionsResponse: ...

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse: ...

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse: ...

    async def update_features(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse: ...

    async def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse: ...

    async def allocate_producer_ids(self) -> tuple[int, int]:
        """A block of ids that no other broker ever gets: the first one and how many."""

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse: ...

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse: ...

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse: ...

    async def unregister_broker(
        self, request: UnregisterBrokerRequest
    ) -> UnregisterBrokerResponse: ...
