"""Events in Cassandra, where one is configured: `cassandra://HOST[:PORT][,HOST…]/KEYSPACE`.

An insert in Cassandra is an upsert, and the primary key of a row is all that identifies an event (its
kind and hour, its time, its id). A micro-batch that is written again therefore changes nothing: no
commit table is needed, and the executors write in parallel, each with a session of its own and at most
`IN_FLIGHT` unanswered inserts. A batch is done when every insert was answered; one that fails fails
the batch, which Spark then repeats.

The driver (`cassandra-driver`) is optional; it has to be installed on the executors as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IN_FLIGHT = 128
DEFAULT_PORT = 9042
KEY = ("kind", "hour", "event_time", "event_id")
TYPES = {"string": "text", "bigint": "bigint", "int": "int", "timestamp": "timestamp"}


class CassandraError(Exception):
    """Cassandra cannot be used; the message says why."""


@dataclass(frozen=True)
class Place:
    hosts: tuple[str, ...]
    port: int
    keyspace: str

    @classmethod
    def parse(cls, url: str) -> Place:
        parts = urlsplit(url)
        keyspace = parts.path.strip("/")
        hosts, port = [], DEFAULT_PORT
        for host in filter(None, parts.netloc.split(",")):
            name, _, number = host.partition(":")
            hosts.append(name)
            port = int(number) if number.isdigit() else port
        if parts.scheme != "cassandra" or not hosts or not keyspace.isidentifier():
            raise CassandraError(f"{url}: expected cassandra://HOST[:PORT][,HOST…]/KEYSPACE")
        return cls(tuple(hosts), port, keyspace)


def connect(place: Place) -> Any:
    """A session in the keyspace, with its cluster as `session.cluster`."""
    try:
        from cassandra.cluster import Cluster
    except ImportError:
        raise CassandraError(
            "a cassandra:// place needs cassandra-driver: pip install cassandra-driver"
        ) from None
    try:
        return Cluster(list(place.hosts), port=place.port).connect(place.keyspace)
    except Exception as error:
        where = ",".join(place.hosts)
        raise CassandraError(
            f"Cassandra at {where}:{place.port}, keyspace {place.keyspace}: {error}"
        ) from None


def table_statement(columns: Sequence[tuple[str, str]]) -> str:
    kinds = ", ".join(f"{name} {TYPES[kind]}" for name, kind in columns)
    return (
        f"CREATE TABLE IF NOT EXISTS events ({kinds}, "
        "PRIMARY KEY ((kind, hour), event_time, event_id))"
    )


def insert_statement(columns: Sequence[str]) -> str:
    names = ", ".join(columns)
    return f"INSERT INTO events ({names}) VALUES ({', '.join('?' * len(columns))})"


def write_rows(session: Any, statement: str, rows: Iterable[Any]) -> int:
    """Inserts rows, a bounded number at a time; how many. The first failure is raised."""
    prepared = session.prepare(statement)
    waiting: list[Any] = []
    count = 0
    for row in rows:
        waiting.append(session.execute_async(prepared, tuple(row)))
        count += 1
        if len(waiting) >= IN_FLIGHT:
            waiting.pop(0).result()
    for future in waiting:
        future.result()
    return count


class CassandraTable:
    def __init__(self, url: str) -> None:
        self.place = Place.parse(url)
        self._made = False

    def write(self, frame: DataFrame) -> None:
        columns = [name for name, kind in frame.dtypes if kind in TYPES and name not in _LOG]
        assert set(KEY) <= set(columns), "a row has all of its key"
        rows = frame.select(*columns)
        place, statement = self.place, insert_statement(columns)
        if not self._made:
            session = connect(place)
            session.execute(table_statement(rows.dtypes))
            session.cluster.shutdown()
            self._made = True

        def write_partition(partition: Iterable[Any]) -> None:
            session = connect(place)
            try:
                write_rows(session, statement, partition)
            finally:
                session.cluster.shutdown()

        rows.foreachPartition(write_partition)


# Where a record was in the log is no part of the event; a copy would differ in it.
_LOG = ("topic", "partition", "offset", "timestamp")
