"""Commands on a crawl, whether it is a job or in partitions: one function, which is given its operator."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from budgetfrontier.tools.cli.common import ClusterUrl, Command, job_operator
from budgetfrontier.tools.cli.sentences import note

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import CrawlOperator


def on_crawl(run: Callable[[argparse.Namespace, CrawlOperator], int | None]) -> Command:
    """Return the command that gives `run` the operator of the crawl that `args.job` names."""

    def command(args: argparse.Namespace) -> int | None:
        if isinstance(args.job, ClusterUrl):
            from budgetfrontier.tools.cli import clusters  # its imports are not needed for a job

            return clusters.run(args, run)
        with job_operator(args) as operator:
            code = run(args, operator)
            if begun := operator.in_progress():
                note(f"{begun}; what is printed here is without the rest of it")
            return code

    return command
