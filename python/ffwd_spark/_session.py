"""What a session is told before it starts: Spark takes neither from a running one."""

from __future__ import annotations


def recommended_conf() -> dict[str, str]:
    """Settings for ``SparkSession.builder.config(map=...)``: a task that is slow runs twice, one that dies runs again.

    Tasks may run twice: a record is the same each time, and files get their names when they are whole.
    """
    return {
        "spark.speculation": "true",
        "spark.speculation.multiplier": "2",
        "spark.task.maxFailures": "4",
    }
