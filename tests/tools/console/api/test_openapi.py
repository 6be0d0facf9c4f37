"""The OpenAPI document holds: schemathesis draws requests from it, valid ones and others, and checks each answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import schemathesis
from aiohttp.test_utils import TestServer
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.console import named_tokens
from budgetfrontier.tools.console.access import Access
from budgetfrontier.tools.console.api.openapi import document
from budgetfrontier.tools.console.api.resource_table import RESOURCES
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.named_tokens import NamedTokens, Role
from budgetfrontier.tools.console.steer_process import SteerLine, SteerOrder
from budgetfrontier.tools.job_operator import JobOperator
from tests.examples import at_most
from tests.tools.console.conftest import jobs_at

pytestmark = pytest.mark.usefixtures("forked_programs")

SCHEMA = schemathesis.openapi.from_dict(document(RESOURCES, has_token=True))
OPERATIONS: list[Any] = [cast(Any, found).ok() for found in SCHEMA.get_all_operations()]
load_all_checks()
UNSURE = ["positive_data_acceptance"]
"""Checks that cannot hold: a cursor or a pattern is a text, and not each text is one."""


async def steered(self: ConsoleJob, order: SteerOrder) -> AsyncIterator[SteerLine]:
    """Carry an order out as `ConsoleJob.steer` does, but as a dry run, and without a process."""
    operator = JobOperator(self.folder, self.path, reader=self.reader)
    try:
        effect = {} if order.op == "simulate" else operator.dry_run(order.op, order.args)
        yield SteerLine(done=1.0, effect=effect)
    except FrontierError as error:
        yield SteerLine(done=1.0, error=str(error))


class Served:
    """A console in a thread, and a token for all that it can do."""

    def __init__(self, job: Path) -> None:
        self.token = named_tokens.add(job / "tokens", "fuzz", Role.ADMIN)
        self._console = Console(jobs_at(job), Access(None, named=NamedTokens(job / "tokens")))
        self._loop, self._begun = asyncio.new_event_loop(), threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._thread.start()
        self._begun.wait()

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        async with TestServer(self._console.application()) as server:
            self.url = str(server.make_url(""))
            self._begun.set()
            await self._end.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def served(job: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(ConsoleJob, "steer", steered)
    console = Served(job)
    yield console
    console.close()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
def test_each_answer_is_one_that_the_document_allows(served: Served, operation: Any) -> None:
    checks: list[Any] = [
        check for name, check in zip(CHECKS.get_all_names(), CHECKS.get_all(), strict=True) if name not in UNSURE
    ]
    path = {"job": "job"} if "{job}" in operation.path else None
    valid, others = (operation.as_strategy(mode, path_parameters=path) for mode in GenerationMode)

    @settings(
        max_examples=at_most(12), derandomize=True, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )  # fmt: skip
    @given(valid | others)
    def ask(case: Case[Any]) -> None:
        case.call_and_validate(served.url, headers={"Authorization": f"Bearer {served.token}"}, checks=checks)

    ask()
