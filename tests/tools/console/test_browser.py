"""The pages in a real browser: hostile text stays text, nothing comes from elsewhere, open pages are kept current."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from budgetfrontier import Frontier
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.pages.table import PAGES
from tests.tools.console.browser import CHROMIUM, Tab, chromium, served, tab
from tests.tools.console.conftest import TOKEN, Client, get, visit
from tests.tools.console.hostile_job import KEYS, MARK, make

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium; .ci/system-packages installs it")

LISTED = [page.path or "/" for page in PAGES if page.listed]
STRANGERS = """[...document.querySelectorAll('*')].filter(one =>
  /^(IFRAME|IMG|OBJECT|EMBED|BASE|FRAME|MATH)$/i.test(one.tagName)
  || (one.tagName === 'STYLE' && one.parentElement.tagName !== 'HEAD')
  || (one.tagName === 'SCRIPT' && !one.src.endsWith('/-/console.js'))
  || [...one.attributes].some(a => /^on/i.test(a.name) || a.name === 'style' || a.name === 'srcdoc')
  || (one.tagName === 'A' && !one.href.startsWith(location.origin + '/'))
).map(one => one.outerHTML.slice(0, 200))"""


APART = """[...document.querySelectorAll('main label[for]')].filter(one => {
  const field = document.getElementById(one.htmlFor), next = one.getBoundingClientRect();
  return field && field.getBoundingClientRect().top < next.bottom - 1; }).map(one => one.innerText)"""
ROWS_OF_AUDIT = """(() => { const rows = [...document.querySelectorAll('table.stacked tr')];
  return [Math.max(...rows.map(one => one.offsetHeight)), rows.some(one => one.scrollWidth > innerWidth)]; })()"""


CUT = """(() => { document.querySelectorAll('details').forEach(one => { one.open = true; });
  return [...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1)
    .map(one => one.innerText.slice(0, 80)); })()"""
"""Tables of which a part is beyond the window."""
FAINT = """(() => {
  const parts = color => { const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number); return {rgb: [r, g, b], a}; };
  const light = rgb => { const [r, g, b] = rgb.map(c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
  const ground = one => { for (; one; one = one.parentElement) {
    const found = parts(getComputedStyle(one).backgroundColor); if (found.a) return found.rgb; } return [255]; };
  return [...document.querySelectorAll('body *')].filter(one => {
    if (![...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())) return false;
    const style = getComputedStyle(one), ink = parts(one instanceof SVGElement ? style.fill : style.color).rgb;
    const [low, high] = [light(ink), light(ground(one))].sort((a, b) => a - b);
    return one.getClientRects().length && (high + .05) / (low + .05) < 4.5;
  }).map(one => one.outerHTML.slice(0, 100)); })()"""
"""Texts with less contrast than level AA of WCAG wants."""
UNNAMED = """[...document.querySelectorAll('input:not([type=hidden]), select, textarea, button, a, summary')]
  .filter(one =>
  !(one.labels && one.labels.length) && !one.getAttribute('aria-label') && !one.innerText.trim()
).map(one => one.outerHTML.slice(0, 100))"""
"""What can be used and has no name for those who do not see it."""


@pytest.fixture(scope="module")
def devtools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chromium(tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a console on a hostile job."""
    folder = tmp_path_factory.mktemp("hostile") / "job"
    make(folder)
    with served(folder) as address:
        yield address


def test_hostile_text_is_shown_as_text_on_every_page(hostile: str, devtools: str) -> None:
    queues = [f"/queue?{urlencode({'key': key})}" for key in KEYS] + [f"/queue/{quote(KEYS[0], safe='')}"]
    more = ["/queues?sort=queue", "/queues?state=RETIRED&sort=turn", "/audit?id=1", "/audit?id=2", "/nothing/<b>"]
    more.append("/queues?" + urlencode({"q": KEYS[1], "sort": "queue"}))

    async def act() -> None:
        async with tab(devtools) as page:
            await page.look(width=1280)
            for path in [*LISTED, *more, *queues]:
                await page.visit(hostile + path)
                assert await page.value(f"document.documentElement.hasAttribute('{MARK}')") is False, path
                assert await page.value(STRANGERS) == [], path
                assert await page.value("document.querySelectorAll('main').length") == 1, path
                assert "1337" not in await page.value("document.body.innerText"), path
                assert all(one.startswith(f"{hostile}/") for one in page.requested()), (path, page.requested())
                refused = [line for line in page.complaints() if "404" not in line]
                assert refused == [], (path, refused)

    asyncio.run(act())


def test_texts_that_turn_the_direction_or_control_a_terminal_are_escaped(hostile: str, devtools: str) -> None:
    async def act() -> None:
        async with tab(devtools) as page:
            for path in ("/queues?sort=queue", "/dead-letters", "/audit", "/logs"):
                await page.visit(hostile + path)
                text = await page.value("document.documentElement.innerHTML")
                assert not any(c in text for c in "\u202e\u2066\u200b\x1b\x07\0"), path
                assert len(text) < 1_000_000, "a long text is cut"

    asyncio.run(act())


def test_pages_can_be_read_without_scripts_at_any_width(hostile: str, devtools: str) -> None:
    async def act() -> None:
        async with tab(devtools) as page:
            for width, scheme in ((1280, "light"), (390, "dark")):
                await page.look(width=width, scheme=scheme, scripts=False)
                for path in [*LISTED, *(f"/queue?{urlencode({'key': key})}" for key in KEYS)]:
                    await page.visit(hostile + path)
                    assert len(page.requested()) <= 2, "the page and its icon"
                    widest = await page.value("document.documentElement.scrollWidth")
                    assert widest <= width, f"{path} is wider than the window: {widest}"
                    if path == "/audit" and width == 390:  # a row is some lines, and no column is off
                        height, off = await page.value(ROWS_OF_AUDIT)
                        assert height < 350 and not off, height
                    assert await page.value(FAINT) == [] and await page.value(UNNAMED) == [], (path, width, scheme)
                    if width == 390:  # a field is below its label, and not beside that of another one
                        assert await page.value(APART) == [], path
                        assert await page.value(CUT) == [], path
                    ground = await page.value("getComputedStyle(document.body).backgroundColor")
                    assert (ground == "rgb(245, 246, 248)") == (scheme == "light"), path

    asyncio.run(act())


def test_an_open_page_follows_the_crawl_and_has_keys(job: Path, devtools: str) -> None:
    async def act(address: str, page: Tab) -> None:
        await page.visit(f"{address}/queues?sort=queue")
        await page.until("document.querySelector('#live').innerText.includes('snoozed.test')")
        with Frontier.open(job / "frontier") as frontier:
            frontier.schedule("http://aaa.test/")
        await page.until("document.querySelector('#live').innerText.includes('aaa.test')")
        await page.press("/")
        assert await page.value("document.activeElement.id") == "q"
        await page.value("document.activeElement.blur()")
        await page.press("]")
        await page.until("location.pathname === '/rates'")
        assert page.complaints() == []

    async def run() -> None:
        with served(job) as address:
            async with tab(devtools) as page:
                await act(address, page)

    asyncio.run(run())


def test_a_page_that_is_no_longer_live_says_so_until_it_is_again(job: Path, devtools: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a token for the browser")
    token.chmod(0o600)
    stale = "!document.querySelector('#lost').hidden && document.querySelector('#lost').innerText"

    async def run() -> None:
        async with tab(devtools) as page:
            with served(job) as address:
                await page.visit(f"{address}/queues?sort=queue")
                assert await page.value(stale) is False
            await page.until(f"({stale} || '').includes('the console does not answer')")
            assert await page.value("document.querySelector('#live').classList.contains('lost')")
            place = address.partition("//")[2]
            with served(job, options=("--token-file", str(token)), listen=place):
                await page.until(f"({stale} || '').includes('signed out')")
                assert await page.value("document.querySelector('#lost a').href") == f"{address}/queues?sort=queue"
            await page.visit("about:blank")
            with served(job, listen=place):
                await page.visit(f"{address}/queues?sort=queue")
            await page.until(f"({stale} || '').includes('the console does not answer')")
            with Frontier.open(job / "frontier") as frontier:
                frontier.schedule("http://aaa.test/")
            with served(job, listen=place):
                await page.until("document.querySelector('#live').innerText.includes('aaa.test')")
                assert await page.value(stale) is False

    asyncio.run(run())


def test_a_narrow_page_shows_which_one_it_is_and_is_not_wider_than_the_window(hostile: str, devtools: str) -> None:
    async def act() -> None:
        async with tab(devtools) as page:
            await page.look(width=390)
            for path in (one.path or "/" for one in PAGES if one.listed and not one.steers):
                await page.visit(hostile + path)
                here = await page.value(
                    "(({left, right}) => 0 <= left && right <= innerWidth)"
                    "(document.querySelector('nav.pages a[aria-current]').getBoundingClientRect())"
                )
                assert here, path
                assert await page.value("document.documentElement.scrollWidth <= innerWidth"), path

    asyncio.run(act())


@pytest.mark.parametrize(
    "form",
    [
        {"op": "adjust", "match": "*", "total": "50", "set": "politeness.min_delay=10s", "reason": "x"},
        {"op": "retire", "queue": '"snoozed.test"', "reason": "x"},
        {"op": "terminate", "reason": "x"},
    ],
)
def test_a_dry_run_can_be_read_on_a_narrow_page(job: Path, devtools: str, tmp_path: Path, form: dict[str, str]) -> None:
    async def dry_run(client: Client, console: Console) -> str:
        headers, text = {"Authorization": f"Bearer {TOKEN}"}, ""
        async with client.post("/steer", data=form, headers=headers) as answer:
            where = answer.url.path
        while "What it would do" not in text:
            async with client.get(where, headers=headers) as answer:
                text = await answer.text()
        return text

    saved = tmp_path / "dry_run.html"
    saved.write_text(visit(job, dry_run, token=TOKEN))
    cells = "[...document.querySelectorAll('main td')]"

    async def run() -> None:
        async with tab(devtools) as page:
            await page.look(width=390)
            await page.visit(saved.as_uri())
            assert await page.value(f"{cells}.length") >= 2
            off = f"{cells}.filter(one => one.getBoundingClientRect().right > innerWidth).length"
            assert await page.value(off) == 0
            for scheme in ("light", "dark"):
                await page.look(width=390, scheme=scheme)
                assert await page.value(FAINT) == [], scheme

    asyncio.run(run())


def test_a_page_that_was_saved_looks_as_it_did(job: Path, devtools: str, tmp_path: Path) -> None:
    saved = tmp_path / "saved.html"
    saved.write_text(get(job, "/")[1])

    async def run() -> None:
        async with tab(devtools) as page:
            await page.visit(saved.as_uri())
            assert await page.value("getComputedStyle(document.querySelector('.verdict')).borderLeftStyle") == "solid"

    asyncio.run(run())


def test_an_operator_signs_in_and_retires_a_queue(job: Path, devtools: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a token for the browser")
    token.chmod(0o600)

    async def act(address: str, page: Tab) -> None:
        await page.look(width=1280)
        await page.visit(f"{address}/queue/snoozed.test")
        assert await page.value("location.pathname") == "/-/sign-in"
        await page.value("document.querySelector('#token').value = 'a token for the browser'")
        await page.value("document.querySelector('main form button').click()")
        await page.until("location.pathname === '/queue/snoozed.test' && document.readyState === 'complete'")
        for path in LISTED:  # with buttons beside rows
            await page.visit(address + path)
            assert await page.value(CUT) == [], path
        await page.visit(f"{address}/queue/snoozed.test")
        await page.value("document.querySelector('button[value=retire]').click()")
        await page.until("document.readyState === 'complete' && document.querySelector('.apply') !== null")
        await page.value("document.querySelector('#why').value = 'a trap'")
        await page.value("document.querySelector('.apply').click()")
        await page.until("document.body?.innerText.includes('Applied.')")
        assert page.complaints() == []

    async def run() -> None:
        with served(job, options=("--token-file", str(token))) as address:
            async with tab(devtools) as page:
                await act(address, page)

    asyncio.run(run())
    with Frontier.open(job / "frontier") as frontier:
        queue = frontier.queue("snoozed.test")
        assert queue is not None and queue.state == "RETIRED"
