"""Answers in a database: upserts by key, and the ledger, one transaction for a micro-batch.

The embedded default is SQLite: it is in Python's standard library, it has real transactions, and one
writer (the driver) is all there is. (DuckDB was the other candidate. It is made for analysis: keyed
updates of single rows are what it is slowest at, and it would be one more dependency.) PostgreSQL is
used when the URL says so, through `psycopg`. The statements are the same for both.

Exactly once: the table `barnabas_commits` has the last batch of each query, written in the same
transaction as the batch's rows. A batch that is not above it was committed before and is skipped.

Rows come to the driver in Arrow-free portions of `PORTION` through `toLocalIterator`; answers are
what changed in a micro-batch, so they are small beside the events. A ledger's entries are as many as
there were events about money.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.spark.jobs.job import Answer, Sort
from barnabas.spark.outputs.batch import BatchId
from barnabas.spark.outputs.ledger import LEDGER_TABLES, LedgerWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PORTION = 2_000
SQLITE_TIMEOUT_S = 30.0
COMMITS = "barnabas_commits"
COMMITS_DDL = (
    f"CREATE TABLE IF NOT EXISTS {COMMITS} "
    "(query_id TEXT NOT NULL, answers TEXT NOT NULL, batch_id BIGINT NOT NULL, "
    "PRIMARY KEY (query_id, answers))"
)


class DatabaseError(Exception):
    """The database cannot be used; the message says which and why."""


class Transaction:
    """What may be done between begin and commit; `?` is a parameter in every database."""

    def __init__(self, cursor: Any, adapt: Callable[[str], str]) -> None:
        self._cursor = cursor
        self._adapt = adapt

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self._cursor.execute(self._adapt(statement), parameters)
        return list(self._cursor.fetchall()) if self._cursor.description else []

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            self._cursor.executemany(self._adapt(statement), rows)


class Connection(Protocol):
    def cursor(self) -> Any: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...


class Database:
    """A database behind one URL: a file's path for SQLite, or `postgresql://…`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_postgresql = url.startswith(("postgresql://", "postgres://"))
        self._known: set[str] = set()

    def _connect(self) -> Connection:
        return _postgresql(self.url) if self.is_postgresql else _sqlite(self.url)

    def _adapt(self, statement: str) -> str:
        return statement.replace("?", "%s") if self.is_postgresql else statement

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """All of it or nothing."""
        connection = self._connect()
        try:
            cursor = connection.cursor()
            if not self.is_postgresql:
                cursor.execute("BEGIN IMMEDIATE")
            yield Transaction(cursor, self._adapt)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        finally:
            connection.close()

    def query(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.transaction() as transaction:
            return transaction.execute(statement, parameters)

    def prepare(self, outputs: Mapping[str, Answer]) -> None:
        """Makes the tables that are not there; a database that cannot be used is told here."""
        with self.transaction() as transaction:
            transaction.execute(COMMITS_DDL)
            for name, answer in outputs.items():
                if answer.sort is Sort.UPSERT:
                    transaction.execute(_table_ddl(name, answer))
            if any(answer.sort is Sort.LEDGER for answer in outputs.values()):
                for statement in LEDGER_TABLES:
                    transaction.execute(statement)

    def commit(
        self, batch: BatchId, frames: Mapping[str, DataFrame], outputs: Mapping[str, Answer]
    ) -> bool:
        """Takes a micro-batch's answers in one transaction; False if it was taken before."""
        answers = ",".join(sorted(frames))
        with self.transaction() as transaction:
            if not batch.replace:
                last = transaction.execute(
                    f"SELECT batch_id FROM {COMMITS} WHERE query_id = ? AND answers = ?",
                    (batch.query, answers),
                )
                if last and batch.batch <= last[0][0]:
                    return False
            ledger = LedgerWriter(transaction)
            if batch.replace:
                self._empty(transaction, frames, outputs, ledger)
            for name, frame in frames.items():
                answer = outputs[name]
                if answer.sort is Sort.UPSERT:
                    statement = upsert_statement(name, answer)
                    columns = list(answer.columns)
                    for rows in portions(frame.select(*columns).toLocalIterator()):
                        transaction.execute_many(statement, rows)
                else:
                    for rows in portions(ledger.columns_of(name, frame).toLocalIterator()):
                        ledger.take(name, rows)
            ledger.finish()
            transaction.execute(
                f"INSERT INTO {COMMITS} (query_id, answers, batch_id) VALUES (?, ?, ?) "
                "ON CONFLICT (query_id, answers) DO UPDATE SET batch_id = excluded.batch_id",
                (batch.query, answers, batch.batch),
            )
        return True

    @staticmethod
    def _empty(
        transaction: Transaction,
        frames: Mapping[str, DataFrame],
        outputs: Mapping[str, Answer],
        ledger: LedgerWriter,
    ) -> None:
        for name in frames:
            if outputs[name].sort is Sort.UPSERT:
                transaction.execute(f"DELETE FROM {name}")
        if any(outputs[name].sort is Sort.LEDGER for name in frames):
            ledger.empty()


def portions(rows: Iterable[Any], size: int = PORTION) -> Iterator[list[tuple[Any, ...]]]:
    """Rows as lists of tuples, `size` at a time."""
    iterator = iter(rows)
    while portion := [tuple(row) for row in islice(iterator, size)]:
        yield portion


def upsert_statement(table: str, answer: Answer) -> str:
    """Inserts a row or replaces the one with its key; with `newest`, only by a row at least as
    new, so that what is older never replaces what is newer."""
    columns = list(answer.columns)
    others = [name for name in columns if name not in answer.key]
    updates = ", ".join(f"{name} = excluded.{name}" for name in others)
    statement = (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT ({', '.join(answer.key)}) DO UPDATE SET {updates}"
    )
    if answer.newest is not None:
        statement += f" WHERE excluded.{answer.newest} >= {table}.{answer.newest}"
    return statement


def _table_ddl(table: str, answer: Answer) -> str:
    columns = ", ".join(
        f"{name} {kind}{' NOT NULL' if name in answer.key else ''}"
        for name, kind in answer.columns.items()
    )
    return f"CREATE TABLE IF NOT EXISTS {table} ({columns}, PRIMARY KEY ({', '.join(answer.key)}))"


def _sqlite(path: str) -> Connection:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=SQLITE_TIMEOUT_S, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except (sqlite3.Error, OSError) as error:
        raise DatabaseError(f"the database {path} cannot be opened: {error}") from None
    return _Sqlite(connection)


class _Sqlite:
    """SQLite's own begin and commit, without the module's implicit transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def cursor(self) -> Any:
        return self._connection.cursor()

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()


def _postgresql(url: str) -> Connection:
    try:
        import psycopg
    except ImportError:
        raise DatabaseError(
            "a postgresql:// database needs psycopg: pip install 'psycopg[binary]'"
        ) from None
    try:
        found: Connection = psycopg.connect(url)
    except psycopg.Error as error:
        where = url.rpartition("@")[2]
        raise DatabaseError(f"PostgreSQL at {where} cannot be reached: {error}") from None
    return found
