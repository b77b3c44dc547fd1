"""How far a job is: Spark's own status, told while it runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from pyspark import SparkContext

Progress = Callable[[int, int], None]


def on_terminal(done: int, count: int) -> None:
    """A line on standard error that is written over."""
    print(f"\rffwd: {done} of {count} tasks", end="\n" if done == count else "", file=sys.stderr, flush=True)


def completed(context: SparkContext, group: str) -> int:
    """Tasks of a job group that are done. Those of a reduce are other stages' and not counted."""
    tracker = context.statusTracker()
    done = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        stages = sorted(info.stageIds) if info else []
        first = tracker.getStageInfo(stages[0]) if stages else None
        done += first.numCompletedTasks if first else 0
    return done


@contextmanager
def told(context: SparkContext, what: str, count: int, progress: Progress | None) -> Iterator[None]:
    """Runs the jobs inside under a name of their own, and tells how many of their tasks are done."""
    group = f"ffwd-{uuid4()}"
    context.setJobGroup(group, what, interruptOnCancel=True)
    end = threading.Event()

    def tell() -> None:
        before = -1
        while progress is not None and not end.wait(0.5):
            done = min(completed(context, group), count)
            if done != before:
                progress(done, count)
                before = done

    teller = threading.Thread(target=tell, daemon=True)
    if progress is not None:
        teller.start()
    try:
        yield
        end.set()
        if progress is not None:
            teller.join()
            progress(count, count)
    finally:
        end.set()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
