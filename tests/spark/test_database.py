"""Answers in SQLite and in PostgreSQL: upserts, the ledger, replays. No Spark: a frame here is rows
with names. PostgreSQL is that of BARNABAS_TEST_POSTGRESQL, or one started here where its programs and
psycopg are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from barnabas.spark.jobs.job import Answer, Sort
from barnabas.spark.outputs.batch import BatchId
from barnabas.spark.outputs.database import Database, DatabaseError, portions
from barnabas.spark.tasks import TASKS

ALERTS = Answer(
    Sort.UPSERT, {"device": "TEXT", "accounts": "BIGINT", "at": "BIGINT"}, ("device",), "at"
)
OUTPUTS = {
    "test_alerts": ALERTS,
    "entries": Answer(Sort.LEDGER),
    "progress": Answer(Sort.LEDGER),
}


class Rows:
    """What of a DataFrame the database needs."""

    def __init__(self, names: Sequence[str], *rows: tuple[Any, ...]) -> None:
        self.names, self.rows = names, rows

    def select(self, *names: str) -> Rows:
        places = [self.names.index(name) for name in names]
        return Rows(names, *[tuple(row[place] for place in places) for row in self.rows])

    def toLocalIterator(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)


def alerts(*rows: tuple[str, int, int]) -> dict[str, Any]:
    return {"test_alerts": Rows(("device", "accounts", "at"), *rows)}


def entries(*rows: tuple[str, str, int]) -> dict[str, Any]:
    names = ("entry_id", "user_id", "amount_cents", "at_ms", "source")
    return {"entries": Rows(names, *[(i, u, cents, 0, "swipe") for i, u, cents in rows])}


def progress(*rows: tuple[str, str, str, str, int]) -> dict[str, Any]:
    return {"progress": Rows(("user_id", "task", "period", "item", "at_ms"), *rows)}


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    pytest.importorskip("psycopg", reason="PostgreSQL: needs psycopg")
    given = os.environ.get("BARNABAS_TEST_POSTGRESQL")
    if given:
        yield given
        return
    if shutil.which("initdb") is None or shutil.which("postgres") is None:
        pytest.skip("PostgreSQL: needs initdb and postgres in PATH")
    # The server refuses to run as root; its directories must be reachable for who it runs as.
    who: tuple[str, ...] = ()
    with tempfile.TemporaryDirectory(prefix="pg-") as place:
        if os.geteuid() == 0:
            if shutil.which("runuser") is None or "postgres" not in _users():
                pytest.skip("PostgreSQL: needs runuser and a user postgres")
            who = ("runuser", "-u", "postgres", "--")
            shutil.chown(place, "postgres")
        command = [*who, "initdb", "-D", f"{place}/data", "-A", "trust", "-U", "barnabas", "-N"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=110, cwd=place)
        settings = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={place}"]
        server = subprocess.Popen(
            [*who, "postgres", "-D", f"{place}/data", *settings],
            cwd=place,
            stderr=subprocess.DEVNULL,
        )
        url = f"postgresql://barnabas@/postgres?host={quote(place, safe='')}"
        try:
            _await(url, server)
            yield url
        finally:
            server.terminate()
            server.wait(timeout=30)


def _users() -> set[str]:
    import pwd

    return {entry.pw_name for entry in pwd.getpwall()}


def _await(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            Database(url).query("SELECT 1")
            return
        except DatabaseError:
            assert server.poll() is None, "postgres has ended"
            assert time.monotonic() < deadline, "postgres does not answer"
            time.sleep(0.05)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    url = str(tmp_path / "deep" / "pipeline.sqlite")
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql")
    found = Database(url)
    _drop(found)
    found.prepare(OUTPUTS)
    yield found
    _drop(found)


def _drop(database: Database) -> None:
    tables = ("test_alerts", "entries", "balances", "progress", "completed_tasks")
    with database.transaction() as transaction:
        for table in (*tables, "barnabas_commits"):
            transaction.execute(f"DROP TABLE IF EXISTS {table}")


def test_a_row_replaces_the_one_with_its_key_unless_that_is_newer(database: Database) -> None:
    database.commit(BatchId("q", 0), alerts(("a", 6, 10), ("b", 7, 10)), OUTPUTS)
    database.commit(BatchId("q", 1), alerts(("a", 9, 11), ("b", 1, 9)), OUTPUTS)
    found = database.query("SELECT device, accounts FROM test_alerts ORDER BY device")
    assert found == [("a", 9), ("b", 7)]


def test_a_replayed_batch_changes_nothing(database: Database) -> None:
    assert database.commit(BatchId("q", 0), entries(("1", "u", 5)), OUTPUTS)
    assert database.commit(BatchId("q", 1), entries(("2", "u", 7)), OUTPUTS)
    assert not database.commit(BatchId("q", 1), entries(("3", "u", 100)), OUTPUTS)
    assert not database.commit(BatchId("q", 0), entries(("4", "u", 100)), OUTPUTS)
    assert database.query("SELECT * FROM balances") == [("u", 12, 2)]
    assert database.commit(BatchId("another", 0), entries(("5", "u", -2)), OUTPUTS)
    assert database.query("SELECT balance_cents FROM balances") == [(10,)]


def test_an_entry_with_a_known_id_is_no_entry(database: Database) -> None:
    database.commit(BatchId("q", 0), entries(("1", "u", 5), ("1", "u", 5), ("2", "v", 1)), OUTPUTS)
    database.commit(BatchId("q", 1), entries(("1", "u", 5), ("3", "u", 2)), OUTPUTS)
    found = database.query("SELECT user_id, balance_cents FROM balances ORDER BY user_id")
    assert found == [("u", 7), ("v", 1)]


def test_a_batch_that_fails_in_the_middle_leaves_nothing(database: Database) -> None:
    class Breaks(Rows):
        def select(self, *names: str) -> Rows:
            return self

        def toLocalIterator(self) -> Iterator[tuple[Any, ...]]:
            yield from [(str(n), "u", 1, 0, "swipe") for n in range(5000)]
            raise RuntimeError("the executor is gone")

    with pytest.raises(RuntimeError, match="executor"):
        database.commit(BatchId("q", 0), {"entries": Breaks(())}, OUTPUTS)  # type: ignore[dict-item]
    assert database.query("SELECT COUNT(*) FROM entries") == [(0,)]
    assert database.commit(BatchId("q", 0), entries(("1", "u", 5)), OUTPUTS)


def test_a_task_is_rewarded_once_when_its_last_item_comes_in_any_order(database: Database) -> None:
    task = next(task for task in TASKS if task.name == "three-apps")
    items = [("u", task.name, "ever", f"app{n}", n * 10) for n in range(5)]
    database.commit(BatchId("q", 0), progress(items[4], items[3], items[3]), OUTPUTS)
    assert database.query("SELECT * FROM completed_tasks") == []
    database.commit(BatchId("q", 1), progress(items[2], items[4]), OUTPUTS)
    done = "SELECT completed_at_ms, reward_cents FROM completed_tasks"
    assert database.query(done) == [(40, task.reward_cents)]
    # Late events: the third item, in the order of event time, is now an earlier one.
    database.commit(BatchId("q", 2), progress(items[0], items[1]), OUTPUTS)
    assert database.query(done) == [(20, task.reward_cents)]
    assert database.query("SELECT balance_cents FROM balances") == [(task.reward_cents,)]


def test_a_backfill_replaces_what_is_there(database: Database) -> None:
    database.commit(BatchId("q", 0), {**entries(("1", "u", 5)), **alerts(("a", 6, 1))}, OUTPUTS)
    whole = BatchId("backfill", 0, True)
    for _ in range(2):
        database.commit(whole, {**entries(("9", "v", 3)), **alerts(("b", 8, 0))}, OUTPUTS)
    assert database.query("SELECT user_id, balance_cents FROM balances") == [("v", 3)]
    assert database.query("SELECT device FROM test_alerts") == [("b",)]


def test_portions() -> None:
    assert [len(p) for p in portions([(n,) for n in range(5)], 2)] == [2, 2, 1]
    assert list(portions([], 2)) == []


def test_a_place_that_is_no_database_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="cannot be opened"):
        Database(str(tmp_path)).prepare(OUTPUTS)
    with pytest.raises(DatabaseError, match=r"psycopg|cannot be reached") as told:
        Database("postgresql://me:secret@127.0.0.1:1/none?connect_timeout=2").prepare(OUTPUTS)
    assert "secret" not in str(told.value)
