"""What a client-metrics subscription may set."""

from barnabas.config.definition import (
    INT,
    LIST,
    MEDIUM,
    NOT_YET,
    key,
)

KEYS = (
    key(
        "interval.ms",
        INT,
        300_000,
        MEDIUM,
        support=NOT_YET,
        doc="How often clients push their metrics.",
    ),
    key(
        "match",
        LIST,
        (),
        MEDIUM,
        support=NOT_YET,
        doc="Which clients the subscription is for, as name=pattern pairs.",
    ),
    key(
        "metrics",
        LIST,
        (),
        MEDIUM,
        support=NOT_YET,
        doc="Prefixes of the metrics asked for; * asks for all.",
    ),
)
