"""Kafka for tests: `Cluster` is a real broker in this process; `plugin` gives pytest fixtures."""

from barnabas.testing.cluster import Cluster

__all__ = ["Cluster"]
