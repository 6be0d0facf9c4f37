"""The API over HTTP: its routes, parameters from queries and bodies, JSON answers, and problems."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
from aiohttp import web
from multidict import MultiMapping

from budgetfrontier.core.converters import converter
from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.engine.remote import whoami
from budgetfrontier.settings.values import show
from budgetfrontier.tools.console import missing_partitions
from budgetfrontier.tools.console.access import SESSION, BrowserSession, check_role
from budgetfrontier.tools.console.api import PREFIX, ApiResource, ScanPending
from budgetfrontier.tools.console.api.command_bodies import result_of
from budgetfrontier.tools.console.api.openapi import PROBLEM, ApiProblem, described_calls, document
from budgetfrontier.tools.console.api.resource_table import RESOURCES
from budgetfrontier.tools.console.forms import SubmittedCommand
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import BadRequest, BeingMade, NotNow, NotThere, ServiceUnavailable
from budgetfrontier.tools.console.rendering import as_sentence
from budgetfrontier.tools.console.steer_process import SIMULATE
from budgetfrontier.tools.console.steering import ONE_AT_A_TIME, WAITING_TASKS, Task, Tasks

_PATIENCE = 10.0
"""Seconds that a request waits for the first scan of all queues."""
_LOOKED = 0.2  # seconds between two looks whether it has ended
LARGEST_BODY = 4 << 20  # bytes
_JSON = "application/json"
_encode = msgspec.json.Encoder().encode
_DECODERS = {struct: msgspec.json.Decoder(struct) for struct in {one.parameters for one in RESOURCES}}

NO_RESOURCE = f"There is no such resource; {PREFIX}/openapi.json has all of them."

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


def is_of_api(path: str) -> bool:
    """Return whether a path is one of the API; PREFIX itself is a page that describes it."""
    return path.startswith(f"{PREFIX}/")


def problem(status: int, text: str) -> web.Response:
    """Return an error as RFC 9457 describes them."""
    body = _encode(ApiProblem(title=HTTPStatus(status).phrase, status=status, detail=text))
    answer = web.Response(body=body, status=status, content_type=PROBLEM)
    if status == HTTPStatus.UNAUTHORIZED:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


class Api:
    """The API of the jobs of a console. `in_thread` reads outside the event loop, a few at a time."""

    def __init__(self, jobs: Sequence[ConsoleJob], in_thread: InThread, tasks: Tasks, *, has_token: bool) -> None:
        self._all, self._tasks, self._has_token = jobs, tasks, has_token
        self._jobs = {job.slug: job for job in jobs}
        self._in_thread = in_thread
        self._resources = [one for one in RESOURCES if one.of_partitions or all(job.is_folder for job in jobs)]
        self._document = b""

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Add the routes of all resources, and of the document."""
        router.add_get(f"{PREFIX}/openapi.json", self._openapi)
        for resource in self._resources:
            path, method = PREFIX + resource.path, resource.method
            if method == "GET":
                router.add_get(path, partial(self._look, resource))  # HEAD, too
            else:
                router.add_route(method, path, partial(self._give if method == "POST" else self._cancel, resource))

    def context(self) -> dict[str, Any]:
        """Return the values of the page that describes the API."""
        return {"prefix": PREFIX, "names": [*self._jobs], "parts": described_calls(self._resources)}

    async def _openapi(self, request: web.Request) -> web.StreamResponse:
        if not self._document:
            self._document = json.dumps(document(self._resources, has_token=self._has_token), indent=1).encode()
        return web.Response(body=self._document, content_type=_JSON)

    async def _look(self, resource: ApiResource, request: web.Request) -> web.StreamResponse:
        """Answer with what a resource shows; wait for the first scan of all queues, or a command, if it needs that."""
        target = self._target(request)
        parameters = of_query(resource.parameters, request.query)
        if isinstance(target, Task):
            await self._in_thread(target.look_again)
            parameters = self._tasks.waits(target)
        until = asyncio.get_running_loop().time() + _PATIENCE
        while True:
            try:
                body = await self._in_thread(lambda: _answered(resource, target, parameters))
            except (ScanPending, BeingMade) as pending:
                if asyncio.get_running_loop().time() < until:
                    await asyncio.sleep(_LOOKED)
                    continue
                what = "This needs a scan of all queues, which is not there yet: "
                answer = problem(503, as_sentence(f"{what * isinstance(pending, ScanPending)}{pending}"))
                answer.headers["Retry-After"] = "5"
                return answer
            return web.Response(body=body, content_type=_JSON)

    async def _give(self, resource: ApiResource, request: web.Request) -> web.StreamResponse:
        """Give a command, or its dry run, and wait a while for its result."""
        job, session = self._target(request), request.get(SESSION)
        if (refused := self._refused(session)) is not None:
            return refused
        assert session is not None
        if request.content_type != _JSON:
            return problem(415, f"A command is JSON: `Content-Type: {_JSON}`.")
        body = await _body(resource.parameters, request)
        asked: SubmittedCommand = resource.answer(job, body)
        check_role(session, asked)
        task = Task(job, asked, who_of(request), dry_run=asked.op == SIMULATE or body.dry_run, back="")
        if self._tasks.waiting(job) >= WAITING_TASKS:
            raise ServiceUnavailable
        if self._tasks.running_simulation(job, asked) is not None:
            raise NotNow(ONE_AT_A_TIME)
        self._tasks.begin(task)
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await task.ended.wait()
        result = result_of(task, self._tasks.waits(task))
        if result.ended and result.error:
            return problem(409, result.error)
        answer = web.Response(body=_encode(result), status=200 if result.ended else 202, content_type=_JSON)
        if not result.ended:
            answer.headers["Location"] = f"{PREFIX}/jobs/{quote(job.slug)}/commands/{task.id}"
        return answer

    async def _cancel(self, resource: ApiResource, request: web.Request) -> web.StreamResponse:
        """Cancel a simulation, and answer with its end."""
        task, session = self._target(request), request.get(SESSION)
        of_query(resource.parameters, request.query)
        if (refused := self._refused(session)) is not None:
            return refused
        assert session is not None
        check_role(session, task.asked)
        self._tasks.cancel(task, who_of(request))
        await task.ended.wait()
        return web.Response(body=_encode(result_of(task)), content_type=_JSON)

    def _refused(self, session: BrowserSession | None) -> web.Response | None:
        """Return the refusal of a request that would change something, unless it carries a token."""
        if not self._has_token:
            return problem(403, "This console is read-only: start it with --tokens or --token-file.")
        if session is None or session.csrf:  # a browser adds the cookie of a session to requests of other sites, too
            return problem(401, "A command needs the token itself: `Authorization: Bearer TOKEN`.")
        return None

    def _target(self, request: web.Request) -> Any:
        """Return the job or the task that a path names, or all jobs. Raises NotThere."""
        name = request.match_info.get("job")
        if name is None:
            return self._all
        job = self._named(name)
        if "task" in request.match_info:
            return self._tasks.find(request.match_info["task"], job)
        if "other" in request.match_info:
            return job, self._named(request.match_info["other"])
        return job

    def _named(self, name: str) -> ConsoleJob:
        """Return the job of a name. Raises NotThere."""
        job = self._jobs.get(name)
        if job is None:
            raise NotThere(f"There is no job {name[:100]!r} here{did_you_mean(name, self._jobs) or '.'}")
        return job


def _answered(resource: ApiResource, target: Any, parameters: Any) -> bytes:
    """Return the answer of a resource as JSON; its `note` begins with the partitions that are missing from it."""
    with missing_partitions.collected() as missing:
        found = resource.answer(target, parameters)
    if told := missing.told():
        found.note = " ".join(filter(None, (told, found.note)))
    return _encode(found)


def who_of(request: web.Request) -> str:
    """Return the name for the audit: that of the token or of the one who signed in, else of the console's own user."""
    session = request.get(SESSION)
    return (session.who if session else "") or whoami()


async def _body(struct: Any, request: web.Request) -> Any:
    """Return the body of a request. Raises BadRequest for one that cannot be meant."""
    parts, size = [], 0
    async for part in request.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > LARGEST_BODY:
            raise web.HTTPRequestEntityTooLarge(LARGEST_BODY, size)
    if not (text := b"".join(parts)).strip():
        raise BadRequest("the body is empty: give a JSON object")
    try:
        body = _DECODERS[struct].decode(text)
        json.loads(text, object_pairs_hook=_once)
        return body
    except (ValueError, RecursionError) as error:  # msgspec.DecodeError is a ValueError
        has = f"; the body has {', '.join(struct.__struct_encode_fields__)}" if "unknown field" in str(error) else ""
        raise BadRequest(in_words(str(error)) + has) from None


def _once(pairs: list[tuple[str, Any]]) -> None:
    """Raise BadRequest for a name that an object has twice: of two values, none must be ignored."""
    names = set()
    for name, _ in pairs:
        if name in names:
            raise BadRequest(f"{show(name)} is given more than once; give it once")
        names.add(name)


def of_query(struct: Any, values: MultiMapping[str]) -> Any:
    """Return the parameters in a query. Raises BadRequest for those that are unknown, given twice or out of bounds."""
    names = struct.__struct_fields__
    for name in values:
        if name not in names:
            has = f"it has {', '.join(names)}" if names else "it has none"
            raise BadRequest(f"{name[:40]!r} is no parameter of this resource: {has}{did_you_mean(name, names)}")
        if len(values.getall(name)) > 1:
            raise BadRequest(f"{name} is given more than once; give it once")
    try:
        return converter(struct)(dict(values), strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(in_words(str(error))) from None


def in_words(message: str) -> str:
    """Return a message of msgspec with the name of the parameter first."""
    what, at, place = message.replace("`", "").partition(" - at $.")
    if at:
        return f"{place}: {what[:1].lower()}{what[1:]}"
    return what.replace("Object missing required field", "missing:").replace("Object contains", "there is an")
