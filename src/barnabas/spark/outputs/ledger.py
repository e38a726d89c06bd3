"""The books in a database: entries, balances that are their sums, progress and completed tasks.

An entry is inserted unless its id is there; only what was inserted moves the balance, in the same
transaction. To find out what was inserted, a portion's entries go into the table with the number of
this transaction's portion in `portion` and are summed by it, which any SQL database does well.

A task's progress has one row for each different item. After a batch, those (user, task, period) that
got an item are counted; if the target is reached, the completion is recorded once and its reward is
an entry `task/USER/TASK/PERIOD`. `completed_at_ms` is the time of the item that reached the target
in the order of event time: a late event may make it earlier, in a stream as in a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.spark.tasks import TASKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from barnabas.spark.outputs.database import Transaction

LEDGER_TABLES = (
    "CREATE TABLE IF NOT EXISTS entries (entry_id TEXT PRIMARY KEY, user_id TEXT NOT NULL, "
    "amount_cents BIGINT NOT NULL, at_ms BIGINT NOT NULL, source TEXT NOT NULL, "
    "portion BIGINT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS entries_by_portion ON entries (portion)",
    "CREATE TABLE IF NOT EXISTS balances (user_id TEXT PRIMARY KEY, balance_cents BIGINT NOT NULL, "
    "entries BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS progress (user_id TEXT NOT NULL, task TEXT NOT NULL, "
    "period TEXT NOT NULL, item TEXT NOT NULL, at_ms BIGINT NOT NULL, "
    "PRIMARY KEY (user_id, task, period, item))",
    "CREATE TABLE IF NOT EXISTS completed_tasks (user_id TEXT NOT NULL, task TEXT NOT NULL, "
    "period TEXT NOT NULL, completed_at_ms BIGINT NOT NULL, reward_cents BIGINT NOT NULL, "
    "PRIMARY KEY (user_id, task, period))",
)
COLUMNS = {
    "entries": ("entry_id", "user_id", "amount_cents", "at_ms", "source"),
    "progress": ("user_id", "task", "period", "item", "at_ms"),
}
TARGETS = {task.name: task for task in TASKS}


class LedgerWriter:
    """Writes one micro-batch within the transaction it is given."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._touched: set[tuple[str, str, str]] = set()
        self._portion: int | None = None

    @staticmethod
    def columns_of(name: str, frame: DataFrame) -> DataFrame:
        return frame.select(*COLUMNS[name])

    def empty(self) -> None:
        for table in ("entries", "balances", "progress", "completed_tasks"):
            self._transaction.execute(f"DELETE FROM {table}")

    def take(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        if name == "entries":
            self._enter(rows)
        else:
            self._advance(rows)

    def finish(self) -> None:
        """Completes the tasks that got what they needed, and credits their rewards."""
        rewards: list[tuple[Any, ...]] = []
        for user, name, period in sorted(self._touched):
            task = TARGETS[name]
            reached = self._transaction.execute(
                "SELECT at_ms FROM progress WHERE user_id = ? AND task = ? AND period = ? "
                "ORDER BY at_ms LIMIT 1 OFFSET ?",
                (user, name, period, task.target - 1),
            )
            if not reached:
                continue
            at_ms = reached[0][0]
            self._transaction.execute(
                "INSERT INTO completed_tasks (user_id, task, period, completed_at_ms, reward_cents) "
                "VALUES (?, ?, ?, ?, ?) ON CONFLICT (user_id, task, period) "
                "DO UPDATE SET completed_at_ms = excluded.completed_at_ms",
                (user, name, period, at_ms, task.reward_cents),
            )
            entry_id = f"task/{user}/{name}/{period}"
            rewards.append((entry_id, user, task.reward_cents, at_ms, "task"))
        self._enter(rewards)
        self._touched.clear()

    def _enter(self, rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        portion = self._next_portion()
        self._transaction.execute_many(
            "INSERT INTO entries (entry_id, user_id, amount_cents, at_ms, source, portion) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (entry_id) DO NOTHING",
            [(*row, portion) for row in rows],
        )
        self._transaction.execute(
            "INSERT INTO balances (user_id, balance_cents, entries) "
            "SELECT user_id, SUM(amount_cents), COUNT(*) FROM entries WHERE portion = ? "
            "GROUP BY user_id ON CONFLICT (user_id) DO UPDATE SET "
            "balance_cents = balances.balance_cents + excluded.balance_cents, "
            "entries = balances.entries + excluded.entries",
            (portion,),
        )

    def _next_portion(self) -> int:
        """Numbers that no other transaction has used: entries are never deleted but as a whole."""
        if self._portion is None:
            last = self._transaction.execute("SELECT MAX(portion) FROM entries")[0][0]
            self._portion = 0 if last is None else int(last)
        self._portion += 1
        return self._portion

    def _advance(self, rows: Sequence[Sequence[Any]]) -> None:
        self._transaction.execute_many(
            "INSERT INTO progress (user_id, task, period, item, at_ms) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (user_id, task, period, item) DO UPDATE SET at_ms = excluded.at_ms "
            "WHERE excluded.at_ms < progress.at_ms",
            rows,
        )
        self._touched.update((row[0], row[1], row[2]) for row in rows)
