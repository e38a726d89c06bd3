"""Spark's own Kafka connector against a Barnabas broker: jobs read, and write their answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.errors import ClientError
from barnabas.spark import feed, runner
from barnabas.spark.events import SWITCHING_ALERTS, USER_REGIONS
from barnabas.spark.jobs.registry import JOBS
from barnabas.spark.pipeline import Pipeline, Settings
from barnabas.spark.streams import Log, TopicsMissing
from barnabas.testing import Cluster
from tests.spark.conftest import Generated, answers

KEEP = {"log.retention.ms": "-1"}  # the traffic's own time is long ago


def test_jobs_find_in_a_broker_what_they_find_in_files(
    connector_jars: tuple[str, ...],
    spark: Any,
    backfilled: Pipeline,
    generated: Generated,
    tmp_path: Path,
) -> None:
    with Cluster(overrides=KEEP) as cluster:
        options = {"bootstrap.servers": cluster.bootstrap_servers}
        log = Log(cluster.bootstrap_servers, "kafka")
        pipeline = Pipeline(spark, Settings(str(tmp_path), log, max_records=100))
        with pytest.raises(TopicsMissing, match="barnabas pipeline topics"):
            runner.run(pipeline, [JOBS["regions"]], once=True)

        assert "phone-prefixes" in feed.ensure_topics(options, 2)
        assert feed.ensure_topics(options, 2) == []
        feed.send(generated.records, options)
        for name in ("account-switching", "regions"):
            job = JOBS[name]
            (progress,) = runner.run(pipeline, [job], once=True)
            assert progress.lag == 0
            assert progress.batches > 1
            assert answers(pipeline, job) == answers(backfilled, job)

        alerts = log.read(spark, [SWITCHING_ALERTS]).collect()
        told = [json.loads(row.value) for row in alerts]
        assert {alert["device_id"] for alert in told} == generated.truth.switching_devices
        assert log.read(spark, [USER_REGIONS]).count() > 0


def test_brokers_that_cannot_be_reached_are_told(spark: Any, tmp_path: Path) -> None:
    log = Log("127.0.0.1:1", "kafka", {"default.api.timeout.ms": "2000"})
    with pytest.raises(ClientError, match=r"127\.0\.0\.1"):
        runner.run(Pipeline(spark, Settings(str(tmp_path), log)), [JOBS["earnings"]], once=True)
