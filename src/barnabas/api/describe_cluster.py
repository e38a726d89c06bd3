"""DescribeCluster (60): the brokers, or with endpoint type 2 the controllers, of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.api import authorized_operations
from barnabas.wire.api_keys import ApiKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from barnabas.api.types import Context, Node

KEY = ApiKey.DESCRIBE_CLUSTER
VERSIONS = (0, 2)

BROKERS = 1
CONTROLLERS = 2
_NAMES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def handle(
    node: Node, context: Context, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type not in _NAMES:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    if request.endpoint_type != node.endpoint_type:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message=f"The request was sent to an endpoint of type "
            f"{_NAMES[node.endpoint_type]}, but we wanted an endpoint of type "
            f"{_NAMES[request.endpoint_type]}",
        )
    endpoints = node.metadata.endpoints(context, fenced=request.include_fenced_brokers)
    return DescribeClusterResponse(
        endpoint_type=node.endpoint_type,
        cluster_id=node.cluster_id,
        controller_id=node.metadata.controller_id(),
        brokers=[
            DescribeClusterBroker(
                broker_id=endpoint.node_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=endpoint.rack,
                is_fenced=endpoint.is_fenced,
            )
            for endpoint in endpoints
        ],
        cluster_authorized_operations=(
            authorized_operations.CLUSTER
            if request.include_cluster_authorized_operations
            else authorized_operations.NOT_ASKED
        ),
    )
