"""Audits and exports of a Bitcoin chain by the program ``ffwd``, scheduled by Apache Spark.

Spark schedules, retries and stores; ``ffwd`` reads, judges and writes. Nothing of either is done here: a range of blocks
is a task, a task is one run of the program. :func:`table` reads blocks without it, by the Python module ``ffwd``.
"""

from ._audit import Finding, Verdict, audit
from ._binary import FfwdError
from ._export import ExportReport, export
from ._plan import Range
from ._session import recommended_conf
from ._table import table

__all__ = ["ExportReport", "FfwdError", "Finding", "Range", "Verdict", "audit", "export", "recommended_conf", "table"]
