"""The table of jobs, for whoever runs them by name. Imports pyspark only when a job is used."""

from __future__ import annotations

from barnabas.spark.jobs import account_switching, collect, earnings, invite_fraud, regions
from barnabas.spark.jobs.job import Job

JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        collect.JOB,
        account_switching.JOB,
        invite_fraud.JOB,
        regions.JOB,
        earnings.JOB,
    )
}
