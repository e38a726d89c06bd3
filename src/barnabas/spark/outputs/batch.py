"""The identity of a micro-batch, which makes every output's commit idempotent.

Spark numbers the micro-batches of a query from 0 and runs a batch again with the same number and the
same input if it does not know that it was finished. The query's id is kept in its checkpoint. So
(query id, batch id) names an input once and for all, and an output that keeps the last pair together
with its data, in one atomic step, can tell a replay from news.

A query that lost its checkpoint starts over with a new id, and its batches are news to the outputs.
"""

from __future__ import annotations

from typing import NamedTuple


class BatchId(NamedTuple):
    query: str
    batch: int
    replace: bool = False
    """A backfill: the answer as a whole, in place of what is there."""
