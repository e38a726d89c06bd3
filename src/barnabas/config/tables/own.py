"""Settings that Apache Kafka does not have."""

from barnabas.config.definition import BOOLEAN, CLUSTER_WIDE, INT, LOW, MEDIUM, STRING, key
from barnabas.config.validators import at_least, between

KEYS = (
    key(
        "max.decompressed.message.bytes",
        INT,
        104_857_600,
        MEDIUM,
        at_least(1),
        doc="The size a compressed batch may reach when it is opened; a larger one is refused.",
    ),
    key(
        "barnabas.flush.before.ack",
        BOOLEAN,
        False,
        MEDIUM,
        doc="Whether records are flushed, many at once, before any of them is acknowledged.",
    ),
    key(
        "barnabas.adopt.topic.directories",
        BOOLEAN,
        False,
        LOW,
        doc="Whether topic directories that the metadata does not know become topics at the start.",
    ),
    key(
        "barnabas.format.if.empty",
        BOOLEAN,
        False,
        LOW,
        doc="Whether empty log directories are formatted at the start, with a new cluster id.",
    ),
    key(
        "barnabas.metrics.host",
        STRING,
        "127.0.0.1",
        LOW,
        doc="The address on which metrics are served over HTTP.",
    ),
    key(
        "barnabas.metrics.port",
        INT,
        -1,
        LOW,
        between(-1, 65_535),
        doc="The port on which metrics are served; 0 picks a free one, -1 serves none.",
    ),
    key(
        "barnabas.request.log.enable",
        BOOLEAN,
        False,
        LOW,
        dynamic=CLUSTER_WIDE,
        doc="Whether every request is logged with its times.",
    ),
    key(
        "min.incremental.fetch.session.eviction.ms",
        INT,
        120_000,
        LOW,
        at_least(0),
        internal=True,
        doc="How long a fetch session is safe from being replaced by another of its size.",
    ),
)
