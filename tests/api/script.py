"""All questions, in their order."""

from __future__ import annotations

from tests.api.cluster_questions import ask_about_cluster
from tests.api.config_questions import ask_about_configs
from tests.api.group_questions import ask_about_groups, find
from tests.api.interview import Answers, Interview
from tests.api.log_questions import ask_about_logs
from tests.api.topic_questions import ask_about_topics

SETTINGS = {
    "node.id": "1",
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


def ask_everything(bootstrap: str) -> Answers:
    it = Interview(bootstrap)
    try:
        find(it)
        ask_about_cluster(it)
        ask_about_topics(it)
        ask_about_logs(it)
        ask_about_groups(it)
        ask_about_configs(it)
    finally:
        it.close()
    return it.answers
