"""The web application: routes, checks before each request, and pages rendered in threads."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from aiohttp import web
from aiohttp.helpers import parse_mimetype
from multidict import MultiDict

from budgetfrontier.core.endpoints.tokens import is_same
from budgetfrontier.engine.remote import whoami
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports import metrics
from budgetfrontier.reports.host_allowlist import REFUSED
from budgetfrontier.settings.redaction import without_passwords
from budgetfrontier.tools.console import forms, missing_partitions, rendering, static_files, steering
from budgetfrontier.tools.console.access import (
    HEADERS,
    SESSION,
    Access,
    BrowserSession,
    check_role,
    cookie_name,
    is_inside,
)
from budgetfrontier.tools.console.api import PREFIX
from budgetfrontier.tools.console.api.api_routes import LARGEST_BODY, NO_RESOURCE, Api, is_of_api, problem, who_of
from budgetfrontier.tools.console.downloads import Downloads
from budgetfrontier.tools.console.event_streams import EventStreams
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.named_tokens import Role
from budgetfrontier.tools.console.pages import GROUPS, ConsolePage
from budgetfrontier.tools.console.pages.index import build as build_index
from budgetfrontier.tools.console.pages.table import PAGES
from budgetfrontier.tools.console.query import BadRequest, NotAllowed, NotNow, NotThere, Query, ServiceUnavailable
from budgetfrontier.tools.console.steering import ONE_AT_A_TIME, WAITING_TASKS, Task, Tasks

THREADS = 4
"""Pages that are made at a time."""
WAITING = 200
"""Requests that wait for one of them; more are refused until there is room."""
_SHORT = 1.5  # seconds that an answer waits for a task, so that most pages show its end at once
LARGEST_FORM = 1 << 18  # bytes
_FORESEEN = 3.0  # seconds that a page with a forecast waits for the scan that this needs
_LOOKED = 0.2  # seconds between two looks whether it has ended
_SAMPLED = 1.0  # seconds between two samples of the totals
_HTML, _PLAIN, _JSON = "text/html", "text/plain", "application/json"
_METRICS = "/metrics"
_NO_PAGE = "There is no such page."

FORM = web.RequestKey("form", MultiDict)  # of texts
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_T = TypeVar("_T")
_log = logging.getLogger("budgetfrontier.console")


class Console:
    """The console of some jobs. `application` returns it as an aiohttp application."""

    def __init__(self, jobs: Sequence[ConsoleJob], access: Access, *, pages: Sequence[ConsolePage] = PAGES) -> None:
        self.jobs = jobs
        for job in jobs:
            job.others = jobs
        self.pages = pages
        self.access = access
        self.templates = rendering.environment()
        self.tasks = Tasks()
        self.downloads = Downloads()
        self._exposition = metrics.Exposition(
            metrics.of_sources(
                {(job.name or job.title) if job.is_folder else job.slug: job.metrics_reading for job in jobs}
            )
        )
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="page")
        self._places = asyncio.Semaphore(THREADS)
        self._waiting = 0
        self.streams = EventStreams(self._in_thread, has_ended=self._has_ended)
        self._tasks: list[asyncio.Task[None]] = []
        self._scans: set[asyncio.Task[None]] = set()

    def application(self) -> web.Application:
        """Return the application."""
        app = web.Application(middlewares=[_masked, self._guarded], client_max_size=LARGEST_FORM)
        app.on_response_prepare.append(_with_headers)
        app.cleanup_ctx.append(self._running)
        static_files.add_routes(app.router)
        app.router.add_get("/-/sign-in", self._sign_in_page)
        app.router.add_post("/-/sign-in", self._sign_in)
        app.router.add_post("/-/sign-out", self._sign_out)
        app.router.add_get(_METRICS, self._metrics)
        api = Api(self.jobs, self._in_thread, self.tasks, has_token=self.access.has_token)
        api.add_routes(app.router)
        app.router.add_get(PREFIX, partial(self._api_page, api))
        several = any(job.name for job in self.jobs)
        if several:
            app.router.add_get("/", self._index)
            app.router.add_get("/{job}/", self._of_job(_moved))
        base = "/{job}" if several else ""  # no name: aiohttp would compare it quoted with the path that is not
        for page in self.pages:
            app.router.add_get(f"{base}{page.path}" or "/", self._of_job(partial(self._page, page)))
        app.router.add_post(f"{base}/steer", self._of_job(self._steer))
        app.router.add_get(f"{base}/steer/{{task}}", self._of_job(self._task))
        app.router.add_post(f"{base}/steer/{{task}}/cancel", self._of_job(self._cancel))
        if all(job.is_folder for job in self.jobs):
            self._add_downloads(app, base)
        return app

    def _add_downloads(self, app: web.Application, base: str) -> None:
        """Add the routes that read the files of jobs."""
        app.router.add_get(f"{base}/reports/file", self._of_job(self.downloads.file))
        app.router.add_get(f"{base}/reports/{{kind}}.{{ending}}", self._of_job(self.downloads.report))

    def _of_job(self, handler: Callable[[ConsoleJob, web.Request], Awaitable[web.StreamResponse]]) -> Handler:
        """Return a handler that finds the job in the path."""
        jobs = {job.name: job for job in self.jobs}

        async def handle(request: web.Request) -> web.StreamResponse:
            job = jobs.get(request.match_info.get("job", ""))
            if job is None:
                raise web.HTTPNotFound
            return await handler(job, request)

        return handle

    async def _running(self, app: web.Application) -> Any:
        """Sample the totals of all jobs while the application runs, and scan when a page has asked for it."""
        self._tasks = [asyncio.create_task(self._sample(job)) for job in self.jobs]
        yield
        await self.tasks.end()
        for task in (*self._tasks, *self._scans):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._scans, return_exceptions=True)
        self._pool.shutdown()
        for job in self.jobs:
            job.close()

    async def _sample(self, job: ConsoleJob) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with suppress(FrontierError, OSError):  # pages say what is wrong
                await loop.run_in_executor(self._pool, job.sample)
            if job.scans.is_due:
                scan = asyncio.create_task(job.scans.run())
                self._scans.add(scan)
                scan.add_done_callback(self._scan_ended)
                await asyncio.sleep(0)  # it has begun
            await asyncio.sleep(_SAMPLED)

    def _scan_ended(self, task: asyncio.Task[None]) -> None:
        self._scans.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _log.error("a scan failed", exc_info=error)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        """Read or render in a thread, a few at a time. Raises ServiceUnavailable if too many wait already."""
        if self._waiting >= WAITING:
            raise ServiceUnavailable
        self._waiting += 1
        try:
            async with self._places:
                return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._waiting -= 1

    # -- before each request

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check who asks, and turn errors into pages that say what to do."""
        try:
            if request.headers.get("Host") not in self.access.hosts:
                return self._message(
                    request, REFUSED, "Wrong host", "This name is not known here. Use the address that the console "
                    "printed when it started, or start it with --allow-host NAME.",
                )  # fmt: skip
            session = self.access.bearer(request.headers) or self.access.session(_cookie(request))
            if session is not None:
                request[SESSION] = session
            if self.access.has_token and session is None and not request.path.startswith("/-/"):
                if "Authorization" in request.headers:
                    return self._message(request, 401, "Wrong token", "This is not the token of this console.")
                if (
                    request.path == _METRICS or is_of_api(request.path) or _wanted(request) != _HTML
                ):  # programs would follow a redirect to a form
                    return self._message(request, 401, "No token", "Send the token: `Authorization: Bearer TOKEN`.")
                if request.query.get("live"):  # the script of an open page says it there
                    return self._message(request, 401, "Signed out", "Sign in again.")
                raise web.HTTPSeeOther(f"/-/sign-in?{urlencode({'next': request.path_qs[:500]})}")
            if request.method == "POST" and not is_of_api(request.path):
                await self._check_form(request, session)
            return await handler(request)
        except web.HTTPNotFound:
            return self._message(request, 404, "Not found", NO_RESOURCE if is_of_api(request.path) else _NO_PAGE)
        except web.HTTPMethodNotAllowed as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            answer = self._message(request, 405, "Wrong method", f"This address takes {allowed}; not {error.method}.")
            answer.headers["Allow"] = allowed
            return answer
        except web.HTTPRequestEntityTooLarge:
            largest = LARGEST_BODY if is_of_api(request.path) else LARGEST_FORM
            return self._message(request, 413, "Too large", f"A request has at most {largest >> 10:,} KiB.")
        except NotAllowed as error:
            return self._message(request, 403, "Not allowed", str(error))
        except NotThere as error:
            return self._message(request, 404, "Not found", str(error))
        except NotNow as error:
            return self._message(request, 409, "Not now", str(error))
        except BadRequest as error:
            return self._message(request, 400, "Bad request", str(error))
        except ServiceUnavailable:
            answer = self._message(request, 503, "Busy", "Too many requests at once. Try again in a moment.")
            answer.headers["Retry-After"] = "1"
            return answer
        except (FrontierError, OSError) as error:
            if isinstance(error, ConnectionError):
                raise
            return self._message(request, 503, "The job cannot be read", str(error))
        except web.HTTPException:
            raise
        except Exception:
            _log.exception("%s %s", request.method, request.path)
            return self._message(request, 500, "Error", "A bug in the console; its log has the details.")

    async def _check_form(self, request: web.Request, session: BrowserSession | None) -> None:
        """Refuse a form that this console did not make for this session."""
        try:
            form = await request.post()
        except (web.HTTPException, ConnectionError):
            raise
        except Exception as error:  # aiohttp has many for an invalid charset or multipart form
            raise BadRequest("This form cannot be read; send it as a browser does.") from error
        request[FORM] = MultiDict((name, value) for name, value in form.items() if isinstance(value, str))
        if session is not None and not session.csrf:
            return  # it carries the token itself, which no browser adds to a form of another site
        if self.access.refused_origin(request.headers):
            raise BadRequest("This form comes from another site, or the browser does not say from which.")
        if request.path == "/-/sign-in":
            return
        if session is None:
            raise BadRequest("Sign in first: a console without --token-file is read-only.")
        if not is_same(request[FORM].get("csrf", ""), session.csrf):
            raise BadRequest("This form belongs to another session. Go back, reload the page, and send it again.")

    # -- pages

    def _context(self, request: web.Request, job: ConsoleJob | None, page: ConsolePage | None) -> dict[str, Any]:
        """Return the values that every template gets."""
        session = request.get(SESSION)
        simulation = self.tasks.simulation(job) if job else None
        can_steer = session is not None and session.role >= Role.STEER
        return {
            "title": page.title if page else "",
            "crawl": job.crawl if job else "",
            "job_name": job.name or job.title if job else "",
            "job_folder": job.place if job else "",
            "base": job.base if job else "",
            "is_folder": job is not None and job.is_folder,
            "navigation": self._groups(steers=can_steer) if job else [],
            "here": page.path if page else None,
            "several": any(one.name for one in self.jobs),
            "session": session if session and session.csrf else None,
            "can_sign_in": self.access.has_token,
            "can_steer": can_steer,
            "asking": who_of(request),
            "simulation": simulation,
            "simulation_waits": rendering.as_sentence(self.tasks.waits(simulation) if simulation else ""),
            "is_admin": session is not None and session.role is Role.ADMIN,
            "live_url": "",
            "missing_partitions": "",
            "now": time.time(),
        }

    def _groups(self, *, steers: bool) -> list[tuple[str, list[ConsolePage]]]:
        """Return the groups of the navigation with their pages."""
        listed = [one for one in self.pages if one.listed and (steers or not one.steers)]
        return [(name, [one for one in listed if one.group == name]) for name in GROUPS]

    def _message(self, request: web.Request, status: int, title: str, text: str) -> web.Response:
        if is_of_api(request.path):
            return problem(status, text)
        wanted = _wanted(request)
        if wanted == _JSON:
            return web.json_response({"status": status, "title": title, "message": text}, status=status)
        if wanted == _PLAIN:
            return web.Response(text=f"{title}: {text}\n", status=status)
        context = self._context(request, None, None) | {"title": title, "message": text, "back": ""}
        return _html(rendering.page(self.templates, "message.html", context), status)

    async def _page(self, page: ConsolePage, job: ConsoleJob, request: web.Request) -> web.StreamResponse:
        """Answer with a page, or with the stream of its live section."""
        query = Query(request.query, target=request.match_info.get("target", ""))
        context = partial(self._context, request, job, page)
        if request.query.get("live") and page.every:
            return await self.streams.send(request, partial(self._live, job, page, query, context), page.every)
        if page.foresees:
            await self._for_scan(job)
        return _html(await self._in_thread(partial(self._whole, job, page, query, context, request.path)))

    async def _for_scan(self, job: ConsoleJob) -> None:
        """Wait for a scan that the forecast of a job needs, as after a change of settings, if it does not take long."""
        clock = asyncio.get_running_loop().time
        until = clock() + _FORESEEN
        while clock() < until and await self._in_thread(job.lacks_scan):
            await asyncio.sleep(_LOOKED)

    def _whole(
        self, job: ConsoleJob, page: ConsolePage, query: Query, context: Callable[[], dict[str, Any]], path: str
    ) -> str:
        with missing_partitions.collected() as missing:
            found = page.build(job, query)
        query.check_names()
        shared = context() | {"missing_partitions": missing.told() if missing.numbers else ""}
        if page.every:
            shared["live_url"] = f"{quote(path)}?{urlencode(query.with_values() | {'live': '1'})}"
        return rendering.page(self.templates, page.template, shared | found)

    def _live(self, job: ConsoleJob, page: ConsolePage, query: Query, context: Callable[[], dict[str, Any]]) -> str:
        found = page.build(job, query)
        return rendering.live(self.templates, page.template, context() | found)

    async def _index(self, request: web.Request) -> web.StreamResponse:
        def make() -> Mapping[str, Any]:
            return (
                self._context(request, None, None) | {"title": "Jobs", "live_url": "/?live=1"} | build_index(self.jobs)
            )

        Query(request.query).check_names()
        if request.query.get("live"):
            return await self.streams.send(request, lambda: rendering.live(self.templates, "index.html", make()), 5.0)
        return _html(await self._in_thread(lambda: rendering.page(self.templates, "index.html", make())))

    async def _api_page(self, api: Api, request: web.Request) -> web.StreamResponse:
        """Answer with the page that describes the API."""
        Query(request.query).check_names()
        context = self._context(request, None, None) | {"title": "API"} | api.context()
        return _html(rendering.page(self.templates, "api.html", context))

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        """Answer a scrape of Prometheus with the metrics of all jobs."""
        body, kind = await self._in_thread(partial(self._exposition.answer, request.headers.get("Accept", "")))
        return web.Response(body=body, headers={"Content-Type": kind})

    def _has_ended(self, request: web.Request) -> bool:
        """Return whether the browser has signed out since, or its session is over."""
        session = request.get(SESSION)
        return bool(session and session.csrf) and self.access.session(_cookie(request)) is not session

    # -- steering

    async def _steer(self, job: ConsoleJob, request: web.Request) -> web.StreamResponse:
        """Begin a dry run, or apply what one has shown, and lead to the page that follows it."""
        form = request[FORM]
        applies = forms.applies(form)
        shown = await self._shown(job, form, who_of(request)) if applies and "dry_run" in form else None
        if shown is not None:
            asked = forms.with_reason(shown.asked, form)
        else:
            asked = forms.again(form) if applies else forms.read(form, partitions=not job.is_folder)
        check_role(request[SESSION], asked)
        if (running := self.tasks.running_simulation(job, asked)) is not None:
            if running.who == who_of(request):
                raise web.HTTPSeeOther(f"{job.base}/steer/{running.id}")
            raise NotNow(ONE_AT_A_TIME)
        if self.tasks.waiting(job) >= WAITING_TASKS:
            raise ServiceUnavailable
        back = form.get("back", "")
        back = back if is_inside(back) else job.base or "/"
        task = Task(job, asked, who_of(request), dry_run=not applies, back=back, shown=shown)
        self.tasks.begin(task)
        if shown is not None:
            shown.applied = task.id
        with suppress(TimeoutError):
            async with asyncio.timeout(_SHORT):
                await task.ended.wait()
        raise web.HTTPSeeOther(f"{job.base}/steer/{task.id}")

    async def _shown(self, job: ConsoleJob, form: MultiDict[str], who: str) -> Task:
        """Return the dry run that a form applies; lead back to it if something has changed that it has not shown.

        It is applied once: a second press of the button leads to the page of the command.
        """
        forms.check_names(form, forms.APPLIED)
        shown = self.tasks.shown(form["dry_run"], who)
        changed = await self._in_thread(partial(job.since, shown.asked, shown.step))
        if shown.applied or changed.newest > Query(form).number("seen", 0, most=1 << 62):
            raise web.HTTPSeeOther(f"{job.base}/steer/{shown.applied or shown.id}")
        return shown

    async def _task(self, job: ConsoleJob, request: web.Request) -> web.StreamResponse:
        task = self.tasks.own(request.match_info["task"], who_of(request))
        await self._in_thread(task.look_again)
        if _wanted(request) == _JSON:
            return web.json_response(steering.as_json(task, self.tasks.waits(task)))
        context = self._context(request, job, None) | steering.context(task, self.tasks.waits(task))
        context["refresh"] = 0 if task.ended.is_set() else 1
        can_apply = task.has_shown and not task.applied

        def make() -> str:
            context["since"] = job.since(task.asked, task.step) if can_apply else None
            return rendering.page(self.templates, "task.html", context)

        return _html(await self._in_thread(make))

    async def _cancel(self, job: ConsoleJob, request: web.Request) -> web.StreamResponse:
        """Cancel a simulation, whoever has begun it, and lead to its page, or for others to the form of a new one."""
        form = request[FORM]
        forms.check_names(form, ())
        task = self.tasks.find(request.match_info["task"])
        check_role(request[SESSION], task.asked)
        self.tasks.cancel(task, who_of(request))
        await task.ended.wait()
        own = task.who == who_of(request)
        raise web.HTTPSeeOther(f"{job.base}/steer/{task.id}" if own else f"{job.base}/simulate")

    # -- sessions

    async def _sign_in_page(self, request: web.Request) -> web.StreamResponse:
        self._needs_token()
        return self._sign_in_form(request, request.query.get("next", ""), "", 200)

    def _needs_token(self) -> None:
        if not self.access.has_token:
            raise NotThere("This console is read-only: it was started without --token-file.")

    def _sign_in_form(self, request: web.Request, target: str, wrong: str, status: int) -> web.Response:
        context = self._context(request, None, None)
        context |= {"title": "Sign in", "next": target, "wrong": wrong, "who": whoami()}
        return _html(rendering.page(self.templates, "sign_in.html", context), status)

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        self._needs_token()
        form = request[FORM]
        forms.check_names(form, ("next", "who", "token"))
        target = form.get("next", "")
        holder = self.access.holder(form.get("token", "").strip())
        if holder is None:
            return self._sign_in_form(request, target, "This is not the token of this console.", 403)
        who = holder.name or form.get("who", "").strip()[:100] or whoami()
        answer = web.HTTPSeeOther(target if is_inside(target) else "/")
        answer.set_cookie(
            cookie_name(request.headers),
            self.access.begin(who, holder.role),
            httponly=True,
            samesite="Strict",
            path="/",
        )
        raise answer

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        form = request[FORM]
        forms.check_names(form, ())
        self.access.end(_cookie(request))
        answer = web.HTTPSeeOther("/-/sign-in")
        answer.del_cookie(cookie_name(request.headers), path="/")
        raise answer


def _cookie(request: web.Request) -> str | None:
    return request.cookies.get(cookie_name(request.headers))


def _wanted(request: web.Request) -> str:
    """Return in which form a message is wanted: the first of the three that Accept prefers, or else HTML."""
    named = map(parse_mimetype, ",".join(request.headers.getall("Accept", ())).split(","))
    asked = ((_quality(one.parameters.get("q", "1")), f"{one.type}/{one.subtype}") for one in named)
    known = (one for one in asked if one[0] > 0 and one[1] in (_HTML, _PLAIN, _JSON))
    return max(known, key=itemgetter(0), default=(1.0, _HTML))[1]


def _quality(text: str) -> float:
    """Return how much a form is wanted; one whose quality is no number is not."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, content_type=_HTML, status=status)


@web.middleware
async def _masked(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Hide the passwords of URLs in whatever is answered; streams and downloads do so themselves."""
    answer = await handler(request)
    if isinstance(answer, web.Response) and isinstance(answer.body, bytes):
        told = without_passwords(text := answer.body.decode("utf-8", "surrogateescape"))
        if told != text:
            answer.body = told.encode("utf-8", "surrogateescape")
    return answer


async def _with_headers(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


async def _moved(job: ConsoleJob, request: web.Request) -> web.StreamResponse:
    raise web.HTTPPermanentRedirect(job.base)
