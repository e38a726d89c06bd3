"""DescribeCluster: the brokers, or the controllers, of the cluster.

Version 1 adds the endpoint type, 2 can show fenced brokers.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, int8, int16, int32, string
from barnabas.wire.message import Message, Struct


class DescribeClusterRequest(Message):
    API_KEY = ApiKey.DESCRIBE_CLUSTER
    VERSIONS = (0, 2)
    FLEXIBLE = (0, 2)

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


class DescribeClusterBroker(Struct):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=True, default=None)
    is_fenced: bool = boolean("2+")


class DescribeClusterResponse(Message):
    API_KEY = ApiKey.DESCRIBE_CLUSTER
    VERSIONS = (0, 2)
    FLEXIBLE = (0, 2)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-0x80000000)
