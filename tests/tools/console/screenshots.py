"""Pictures of real crawls for the manual and the README, taken by `make screenshots`.

Crawls the synthetic web of the demo, steers the crawl as an operator would, and saves what the console and `top` show
while it runs and after it. Fails at a page that is missing, an error, a script that complains, or an empty picture.
With `--all`, it saves every page of the console, too, at 1280 and 390 pixels, light and dark. The
[moving picture](moving_picture.py) is of another crawl at the same time.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import multiprocessing
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from rich.console import Console, Group
from rich.terminal_theme import MONOKAI

from budgetfrontier import CrawlState
from budgetfrontier.crawler.demo.demo_crawl import serve
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages.table import PAGES
from budgetfrontier.tools.console.top_controls import Controls
from budgetfrontier.tools.console.top_reading import JobReading
from budgetfrontier.tools.console.top_view import room, screen
from tests.support import PATIENCE
from tests.tools.console.browser import CHROMIUM, Tab, chromium, served, tab
from tests.tools.console.demo_job import ROOT, Failure, command, crawling, wait
from tests.tools.console.moving_picture import MOVING, draw, record

FOLDER = ROOT / "docs" / "screenshots"
LARGEST = 150 * 1024
"""The most bytes of a picture: it is in the repository."""

FETCHED = 340
"""The URIs after which the pictures of the crawl under way are taken."""

TERMINAL = (100, 32)  # columns and lines
_COLORS = 256  # of a picture
_HEIGHT = 300  # pixels; a longer page is taken in full
_FEWEST = 12  # colors of a page that has text: letters have many shades


@dataclass(frozen=True)
class Shot:
    """One picture of a page; `holds` is a text that the page has to show."""

    name: str
    path: str
    holds: str
    width: int = 1280
    scheme: str = "light"


RUNNING = (Shot("overview", "/", "last at work"),)
STOPPED = (
    Shot("overview-narrow", "/", "only retired queues are left", width=390, scheme="dark"),
    Shot("queue", "/queue/calendar.test", "more than its total budget of 60"),
    Shot("retired", "/retired", "shop.test"),
    Shot("errors", "/errors", "broken.test"),
)
TOP = "top.svg"
NAMES = frozenset({f"{shot.name}.png" for shot in RUNNING + STOPPED} | {TOP, MOVING})
"""The files that the manual and the README can show."""

_SLOWER = {"frontier": {"politeness": {"min_delay": "6s", "max_delay": "12s"}}}


def every_page() -> Iterator[Shot]:
    """Each page of the navigation, at both widths and in both color schemes."""
    for page in PAGES:
        if page.listed:
            name = page.path.strip("/") or "overview"
            for width in (1280, 390):
                for scheme in ("light", "dark"):
                    yield Shot(f"{name}-{width}-{scheme}", page.path or "/", "", width, scheme)


async def take(page: Tab, address: str, shot: Shot, folder: Path) -> None:
    """Save a picture of a page, which has to be whole."""
    await page.look(width=shot.width, height=_HEIGHT, scheme=shot.scheme)
    await page.visit(address + shot.path)
    if page.status() != 200:
        raise Failure(f"{shot.path}: HTTP status {page.status()}")
    text = str(await page.value("document.querySelector('main').innerText"))
    if not text.strip() or shot.holds not in text:
        raise Failure(f"{shot.path}: {shot.holds!r} is not in: {text}")
    if complaints := page.complaints():
        raise Failure(f"{shot.path}: {complaints}")
    path = folder / f"{shot.name}.png"
    await page.screenshot(path)
    compress(path)


def compress(path: Path) -> None:
    """Reduce the colors of a picture, which must have some."""
    with Image.open(path) as picture:
        seen = picture.convert("RGB").getcolors(1 << 24) or []
        if len(seen) < _FEWEST:
            raise Failure(f"{path} is empty: it has {len(seen)} colors")
        reduced = picture.convert("RGB").quantize(_COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    reduced.save(path, optimize=True)
    if (size := path.stat().st_size) > LARGEST:
        raise Failure(f"{path} has {size:,} bytes, more than {LARGEST:,}")


def take_top(folder: Path, job: Path) -> None:
    """Save what `top` shows in a terminal."""
    width, height = TERMINAL
    opened = ConsoleJob("", job, job / "frontier")
    try:
        asyncio.run(opened.scans.run())
        reading, controls = JobReading(opened), Controls()
        reading.read()
        time.sleep(1.0)  # rates are those between two looks
        shown = reading.read()
        shown.rows = reading.rows(controls, room(shown, width=width, height=height))
        console = Console(record=True, width=width, height=height, file=io.StringIO(), force_terminal=True)
        console.print(Group(*screen(shown, controls, width=width, height=height)))
    finally:
        opened.close()
    if "Queues by spend" not in console.export_text(clear=False):
        raise Failure("top lists no queues")
    svg = console.export_svg(title="budgetfrontier top demo", theme=MONOKAI, unique_id="top")
    (folder / TOP).write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))  # nothing from elsewhere


def steer(job: Path) -> None:
    """Do what an operator does to a running crawl."""
    budget = ("--match", "queue:calendar.test", "--total-budget", 60, "--reason", "the months of next year")
    subprocess.run(command("adjust", job, *budget), check=True, capture_output=True)
    why = ("--reason", "their admin asked")
    subprocess.run(command("retire", job, "patient.test", *why), check=True, capture_output=True)


def make(folder: Path, *, everything: bool) -> None:
    """Crawl, and save the pictures into a folder."""
    shots = (*STOPPED, *every_page()) if everything else STOPPED
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,  # chromium writes to its end
        tempfile.TemporaryDirectory() as elsewhere,
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as another,
        chdir(name),
        serve() as addresses,
        crawling(addresses, _SLOWER) as (job, process),
        chromium(Path(name)) as browser,
    ):
        recorded = another.submit(record, Path(elsewhere))
        wait(job, process, lambda totals: totals.succeeded >= FETCHED // 2)
        steer(job)
        wait(job, process, lambda totals: totals.succeeded >= FETCHED)
        with served(job) as address:
            asyncio.run(take_all(browser, address, RUNNING, folder))
        take_top(folder, job)
        wait(job, process, lambda totals: totals.state is CrawlState.PAUSED)
        process.wait(timeout=PATIENCE)
        with served(job) as address:
            asyncio.run(take_all(browser, address, shots, folder))
        asyncio.run(draw(browser, recorded.result(), Path(elsewhere), folder / MOVING))


async def take_all(devtools: str, address: str, shots: tuple[Shot, ...], folder: Path) -> None:
    """Save pictures in one tab, once the queues have been read."""
    async with tab(devtools) as page:
        await page.visit(address + "/queues?sort=expenditure")
        await page.until("document.querySelector('main').innerText.includes('calendar.test')")
        await asyncio.sleep(2.0)  # rates are those between samples
        for shot in shots:
            await take(page, address, shot, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--into", type=Path, default=FOLDER, help="the folder of the pictures (default: docs/screenshots)"
    )
    parser.add_argument("--all", action="store_true", help="all pages of the console, too")
    args = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("screenshots need chromium: .ci/system-packages installs it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, everything=args.all)
        args.into.mkdir(parents=True, exist_ok=True)
        for picture in sorted(folder.iterdir()):
            shutil.copy(picture, args.into)
            print(f"{args.into / picture.name}: {picture.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
