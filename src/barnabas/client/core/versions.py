"""Which version of an API a client and a broker use together: the highest both know.

A broker tells its ranges with ApiVersions. The client's own ranges are those of the message classes;
a caller may cap them, for instance when a topic's id is unknown and the versions that carry only ids
cannot be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas.client.errors import VersionError
from barnabas.wire.api_keys import ApiKey

SINCE: Final = {
    ApiKey.ELECT_LEADERS: "2.2",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "2.3",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "2.4",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "2.4",
    ApiKey.OFFSET_DELETE: "2.4",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "2.6",
    ApiKey.ALTER_CLIENT_QUOTAS: "2.6",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "2.7",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "2.7",
    ApiKey.UPDATE_FEATURES: "2.7",
    ApiKey.DESCRIBE_CLUSTER: "2.8",
    ApiKey.DESCRIBE_PRODUCERS: "2.8",
    ApiKey.DESCRIBE_TRANSACTIONS: "3.0",
    ApiKey.LIST_TRANSACTIONS: "3.0",
    ApiKey.DESCRIBE_QUORUM: "3.3, in clusters without ZooKeeper",
    ApiKey.UNREGISTER_BROKER: "3.3, in clusters without ZooKeeper",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "3.7",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "3.7",
    ApiKey.LIST_CONFIG_RESOURCES: "3.7",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "3.8",
    ApiKey.ADD_RAFT_VOTER: "3.9",
    ApiKey.REMOVE_RAFT_VOTER: "3.9",
}
"""The release of Apache Kafka whose brokers first offer an API, if it is younger than 2.1."""


class BrokerVersions:
    """The ranges one broker offers."""

    __slots__ = (
        "address",
        "finalized_features",
        "finalized_features_epoch",
        "ranges",
        "supported_features",
    )

    def __init__(self, address: str, ranges: Mapping[int, tuple[int, int]]) -> None:
        self.address = address
        self.ranges = dict(ranges)
        self.supported_features: dict[str, tuple[int, int]] = {}
        self.finalized_features: dict[str, tuple[int, int]] = {}
        self.finalized_features_epoch = -1

    def offers(self, key: int) -> bool:
        return key in self.ranges

    def choose_for(self, request: Any, highest: int | None = None) -> int:
        """The highest version of a request's API that both know, at most `highest`."""
        low, high = type(request).VERSIONS
        return self.choose(
            type(request).API_KEY, low, high if highest is None else min(high, highest)
        )

    def choose(self, key: int, lowest: int, highest: int) -> int:
        """The highest version in both `lowest..highest` and the broker's range."""
        name = ApiKey(key).name
        offered = self.ranges.get(key)
        if offered is None:
            since = SINCE.get(ApiKey(key))
            brokers_have_it = f"; Apache Kafka has it since {since}" if since else ""
            raise VersionError(
                self.address, name, f"is not offered by this broker{brokers_have_it}"
            )
        low, high = offered
        version = min(high, highest)
        if version < max(low, lowest):
            raise VersionError(
                self.address,
                name,
                f"is offered in versions {low}-{high}, this client needs {lowest}-{highest}",
            )
        return version
