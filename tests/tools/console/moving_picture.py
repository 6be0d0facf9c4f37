"""The moving picture of the README: `top` during a crawl of the demo's web, and a command that raises a budget.

The crawl is real, but its server answers late, so that queues wait for their turns, and one host does not answer before
the command was given, so that the crawl has not ended by then. The screens of `top` are kept while it runs. Then a
browser draws each, and Pillow makes a GIF of them.
"""

from __future__ import annotations

import asyncio
import io
import json
import shlex
import subprocess
import time
from collections.abc import Callable
from contextlib import chdir, closing
from pathlib import Path

from aiohttp import web as http
from PIL import Image
from rich.console import Console, Group
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from budgetfrontier import QueueState
from budgetfrontier.crawler.demo import web
from budgetfrontier.crawler.demo.loopback import Loopback
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.top_controls import Controls
from budgetfrontier.tools.console.top_reading import JobReading
from budgetfrontier.tools.console.top_view import room, screen
from tests.support import PATIENCE
from tests.tools.console.browser import tab
from tests.tools.console.demo_job import Failure, command, crawling, wait

MOVING = "top.gif"
LARGEST_MOVING = 1 << 20
"""The most bytes of it: it is in the repository, and on the first page of the project."""

SIZE = (800, 528)  # pixels
TERMINAL = (92, 24)  # columns and lines of `top`; the shell is below
_SHELL = 5  # lines
_EVERY = 0.5  # seconds between two screens
_SHOWN = 400  # milliseconds of each
_HELD = 4000  # milliseconds of the last one
_SCANNED = 10  # screens for which the order of the queues stays: `top` keeps it for a minute, longer than this crawl
_COLORS = 64

_CHANGES = {
    "seeds": [f"http://{host}/" for host in (web.CALENDAR, web.SHOP, web.PORTAL)],
    "fetch": {"concurrency": 4, "timeout": "5m"},
    "overrides": [{"match": f"queue:{web.CALENDAR}", "set": {"queue_total_budget": 20}}],
}
_LATE = 0.1  # seconds that an answer takes
_RAISED = 60

_BEGIN = "# Each host has a queue, which spends 10 in a turn, then waits, and may spend 40 in all."
_RETIRED = "# calendar.test, whose links never end, has spent its 20 and is retired. Raise its budget:"
_END = "# Only queues over budget are left: the crawl pauses, and they keep their URIs."

_PAGE = """<!doctype html><body style="margin:0;background:#292929;overflow:hidden"><pre style="margin:8px 13px;
font:14px/17px 'DejaVu Sans Mono',monospace;color:#e0e0e0"></pre>"""


def record(folder: Path) -> list[str]:
    """Crawl in a folder, which becomes the working directory meanwhile; return the screens as HTML."""
    site = _Site()
    with (
        chdir(folder),
        Loopback(site.respond) as server,
        crawling({"*.test": server.address}, _CHANGES) as (job, process),
    ):
        wait(job, process, lambda totals: totals.seen > len(web.HOSTS))
        with closing(ConsoleJob("", job, job / "frontier")) as opened:
            recording = _Recording(opened)
            recording.go_on([_BEGIN], lambda: recording.state() is not QueueState.RETIRED)
            words = ("adjust", job, "--match", f"queue:{web.CALENDAR}", "--total-budget", _RAISED)
            typed = [_RETIRED, f"$ {shlex.join(('budgetfrontier', *map(str, words)))}"]
            recording.take(typed[:1], screens=4)
            recording.take(typed, screens=3)
            said = subprocess.run(command(*words), check=True, capture_output=True, text=True).stdout
            site.steered = True
            recording.go_on([*typed, *said.splitlines()], lambda: process.poll() is None)
            recording.take([_END], screens=1)
            return recording.screens


class _Site:
    """The demo's web, which answers late. A host of one page answers once the crawl was steered."""

    def __init__(self) -> None:
        self.steered = False

    async def respond(self, request: http.BaseRequest) -> http.StreamResponse:
        await asyncio.sleep(_LATE)
        while web.MOVED in request.host and not self.steered:
            await asyncio.sleep(_LATE)
        return await web.respond(request)


class _Recording:
    """The screens of `top` while a crawl goes on, each with the last lines of a shell below it."""

    def __init__(self, job: ConsoleJob) -> None:
        self.screens: list[str] = []
        self._job = job
        self._reading = JobReading(job)
        self._reading.read()
        time.sleep(_EVERY)  # rates are those between two looks

    def state(self) -> QueueState | None:
        """Return the state of the calendar's queue."""
        with self._job.view() as view:
            queue = view.find_queue(web.CALENDAR)
        return queue.state if queue else None

    def go_on(self, shell: list[str], condition: Callable[[], bool]) -> None:
        """Keep screens while a condition holds."""
        deadline = time.monotonic() + PATIENCE
        while condition():
            if time.monotonic() > deadline:
                raise Failure("the crawl did not come so far")
            self.take(shell, screens=1)

    def take(self, shell: list[str], *, screens: int) -> None:
        """Keep some screens."""
        for _ in range(screens):
            if len(self.screens) % _SCANNED == 0:
                asyncio.run(self._job.scans.run())
            rule = Text("─" * TERMINAL[0], style="dim")
            self.screens.append(_html([*self._top(), rule, *map(_line, shell[-_SHELL:])]))
            time.sleep(_EVERY)

    def _top(self) -> list[Text]:
        width, height = TERMINAL
        shown, controls = self._reading.read(), Controls()
        shown.rows = self._reading.rows(controls, room(shown, width=width, height=height))
        controls.selected = -1
        return screen(shown, controls, width=width, height=height)


def _line(line: str) -> Text:
    return Text(line, style="bold yellow" if line.startswith("#") else "bold" if line.startswith("$") else "")


def _html(lines: list[Text]) -> str:
    console = Console(record=True, width=TERMINAL[0], file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(Group(*lines))
    return console.export_html(theme=SVG_EXPORT_THEME, inline_styles=True, code_format="{code}")


async def draw(devtools: str, screens: list[str], folder: Path, path: Path) -> None:
    """Draw screens in a browser, and save them as a moving picture; `folder` is for files meanwhile."""
    (folder / "screen.html").write_text(_PAGE, encoding="utf-8")
    frames = []
    async with tab(devtools) as page:
        await page.look(width=SIZE[0], height=SIZE[1])
        await page.visit((folder / "screen.html").as_uri())
        for text in screens:
            await page.value(f"document.querySelector('pre').innerHTML = {json.dumps(text)}")
            await page.screenshot(folder / "screen.png")
            with Image.open(folder / "screen.png") as picture:
                frames.append(picture.convert("RGB"))
    _save(frames, path)


def _save(frames: list[Image.Image], path: Path) -> None:
    """Save a moving picture whose frames share a palette."""
    sheet = Image.new("RGB", (SIZE[0], SIZE[1] * len(frames)))
    for at, frame in enumerate(frames):
        sheet.paste(frame, (0, SIZE[1] * at))
    palette = sheet.quantize(_COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    first, *others = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [_SHOWN] * len(others) + [_HELD]
    first.save(path, save_all=True, append_images=others, duration=times, loop=0, optimize=True)
    if (size := path.stat().st_size) > LARGEST_MOVING:
        raise Failure(f"{path} has {size:,} bytes, more than {LARGEST_MOVING:,}")
