"""The API over HTTP: its routes, parameters from queries and bodies, JSON answers, and problems."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web
from multidict import MultiMapping

from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.tools.console.api import PREFIX, ApiResource, ScanPending
from budgetfrontier.tools.console.api.openapi import PROBLEM, ApiProblem, document
from budgetfrontier.tools.console.api.resource_table import RESOURCES
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import BadRequest, NotThere

_PATIENCE = 10.0
"""Seconds that a request waits for the first scan of all queues."""
_LOOKED = 0.2  # seconds between two looks whether it has ended
_encode = msgspec.json.Encoder().encode

NO_RESOURCE = f"There is no such resource; {PREFIX}/openapi.json has all of them."

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


def is_of_api(path: str) -> bool:
    """Return whether a path is one of the API."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def problem(status: int, text: str) -> web.Response:
    """Return an error as RFC 9457 describes them."""
    body = _encode(ApiProblem(title=HTTPStatus(status).phrase, status=status, detail=text))
    answer = web.Response(body=body, status=status, content_type=PROBLEM)
    if status == HTTPStatus.UNAUTHORIZED:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


class Api:
    """The API of the jobs of a console. `in_thread` reads outside the event loop, a few at a time."""

    def __init__(self, jobs: Sequence[ConsoleJob], in_thread: InThread, *, has_token: bool) -> None:
        self._all = jobs
        self._jobs = {job.slug: job for job in jobs}
        self._in_thread = in_thread
        self._resources = [one for one in RESOURCES if one.of_partitions or all(job.is_folder for job in jobs)]
        self._document = json.dumps(document(self._resources, has_token=has_token), indent=1).encode()

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Add the routes of all resources, and of the document."""
        router.add_get(f"{PREFIX}/openapi.json", self._openapi)
        for resource in self._resources:
            router.add_get(PREFIX + resource.path, partial(self._look, resource))

    async def _openapi(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=self._document, content_type="application/json")

    async def _look(self, resource: ApiResource, request: web.Request) -> web.StreamResponse:
        """Answer with what a resource shows; wait for the first scan of all queues if it needs one."""
        target = self._target(request)
        parameters = of_query(resource.parameters, request.query)
        until = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            try:
                body = await self._in_thread(lambda: _encode(resource.answer(target, parameters)))
            except ScanPending as pending:
                if asyncio.get_running_loop().time() < until:
                    await asyncio.sleep(_LOOKED)
                    continue
                answer = problem(503, f"The order needs a scan of all queues, which is not there yet: {pending}.")
                answer.headers["Retry-After"] = "5"
                return answer
            return web.Response(body=body, content_type="application/json")

    def _target(self, request: web.Request) -> Any:
        """Return the job that a path names, or all jobs. Raises NotThere."""
        name = request.match_info.get("job")
        if name is None:
            return self._all
        job = self._jobs.get(name)
        if job is None:
            raise NotThere(f"There is no job {name[:100]!a} here{did_you_mean(name, self._jobs) or '.'}")
        return job


def of_query(struct: Any, values: MultiMapping[str]) -> Any:
    """Return the parameters in a query. Raises BadRequest for those that are unknown, given twice or out of bounds."""
    names = struct.__struct_fields__
    for name in values:
        if name not in names:
            has = f"it has {', '.join(names)}" if names else "it has none"
            raise BadRequest(f"{name[:40]!a} is no parameter of this resource: {has}{did_you_mean(name, names)}")
        if len(values.getall(name)) > 1:
            raise BadRequest(f"{name} is given more than once; give it once")
    try:
        return msgspec.convert(dict(values), struct, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(in_words(str(error))) from None


def in_words(message: str) -> str:
    """Return a message of msgspec with the name of the parameter first."""
    what, at, place = message.replace("`", "").partition(" - at $.")
    if at:
        return f"{place}: {what[:1].lower()}{what[1:]}"
    return what.replace("Object missing required field", "missing:").replace("Object contains", "there is an")
