"""One crawl meets everything that a hostile web can do: it goes on, memory stays bounded, who is to blame pays."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from budgetfrontier import Frontier, QueueState, Settings
from budgetfrontier.crawler.fetch import fetcher
from budgetfrontier.crawler.fetch.response import BLOCKED
from tests.crawler import hostile
from tests.crawler.hostile import Host, HostileWeb, moved, page, says
from tests.crawler.site import run
from tests.support import PATIENCE

# Its own peak: what getrusage tells counts what this process had when it forked, too.
MEASURED = """
import re, sys
from budgetfrontier.tools.cli import main
code = main()
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
sys.exit(code)
"""
BUDGET = 12
STRANGE = (
    "javascript:alert(1)",
    "data:text/html,<a href=http://evil.test/>x</a>",
    "file:///etc/passwd",
    "ftp://ftp.test/",
    "/with space",
    "\\back\\slash",
    "/nul\x00byte",
    "/tab\tand\nnewline",
    "/%ff%fe%00",
    "//user:secret@strange.test/userinfo",
    "http://xn--strnge-test.test/",
    "http://str\u0430nge.test/homograph",  # a Cyrillic a
    "http://[::1]:1/v6",
    "http://169.254.169.254/latest/meta-data/",
    "http://2130706433/decimal",
    "http://0x7f.1/hex",
    "http://strange.test:99999/port",
    "http://" + "a" * 300 + ".test/",
    "/" + "long" * 5000,
    "http:///",
    "?",
    "\udcff\udcfe",
)
HOSTS = {
    "good.test": says(page(*(f"/{number}" for number in range(20)))),
    "redirects.test": hostile.endless_redirects,
    "ping.test": says(moved("http://pong.test/")),
    "pong.test": says(moved("http://ping.test/")),
    "header.test": hostile.endless_header,
    "zeros.test": hostile.gzip_of_zeros,
    "short.test": says(hostile.OK + b"Content-Length: 100000\r\nConnection: close\r\n\r\n<a href=/more>"),
    "long.test": says(hostile.OK + b"Content-Length: 3\r\n\r\n" + b"<a href=/more>" * 10_000),
    "charset.test": says(page("/m\udcfcller", charset="klingon-8")),
    "cookies.test": hostile.cookies,
    "calendar.test": hostile.calendar,
    "sessions.test": hostile.sessions,
    "strange.test": says(page(*STRANGE)),
    "robots.test": hostile.huge_robots,
}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HostileWeb, Path, str, int]]:
    """The web, the job, what was said, and the most memory that the crawl took, in KiB."""
    folder = tmp_path_factory.mktemp("hostile")
    with HostileWeb(HOSTS) as web:
        config = f"""
seeds: [{", ".join(f"http://{host}/" for host in HOSTS)}]
scope: {{accept: [all], max_hops: 30}}
frontier:
  queue_total_budget: {BUDGET}
  politeness: {{delay_factor: 0, min_delay: 0, max_delay: 0}}
  retry: {{max_retries: 1, delay: 0}}
overrides:
  - {{match: "host:good.test", set: {{queue_total_budget: -1}}}}
fetch:
  resolve: {{"*.test": "{web.address}"}}
  timeout: {PATIENCE:g}s
  first_byte_timeout: {PATIENCE:g}s
  min_speed: 100
output: {{warc: true, links: jsonl}}
"""
        # A page whose links lead home, from a host that is nobody's seed.
        web.hosts["strange.test"] = says(
            page(*STRANGE, f"http://127.0.0.1:{web.port}/", f"http://localhost:{web.port}/")
        )
        (folder / "crawl.yaml").write_text(config, encoding="utf-8", errors="surrogateescape")
        command = [sys.executable, "-c", MEASURED, "crawl", "crawl.yaml", "--job", "job"]
        ended = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=2 * PATIENCE, errors="replace", check=False
        )
        assert ended.returncode == 0, ended.stderr
        yield web, folder / "job", ended.stderr, int(ended.stdout)


def log(job: Path) -> dict[str, list[str]]:
    """The last line of crawl.log for each URL, as columns."""
    lines = (job / "logs/crawl.log").read_text(errors="replace").splitlines()
    return {line.split()[3]: line.split() for line in lines}


def test_the_crawl_goes_on(crawled: tuple[HostileWeb, Path, str, int]) -> None:
    web, job, said, _ = crawled
    assert "crawl finished" in said and "Traceback" not in said and "\x1b" not in said
    assert {f"good.test/{number}" for number in range(20)} | {"good.test/"} <= set(web.hits)
    with Frontier.open(job / "frontier") as frontier:
        frontier.check()
        assert frontier.summary().in_process == 0


def test_memory_stays_bounded(crawled: tuple[HostileWeb, Path, str, int]) -> None:
    assert crawled[3] < 200 * 1024


@pytest.mark.parametrize("host", sorted(set(HOSTS) - {"good.test", "ping.test", "pong.test", "robots.test"}))
def test_who_is_to_blame_pays(crawled: tuple[HostileWeb, Path, str, int], host: str) -> None:
    with Frontier.open(crawled[1] / "frontier") as frontier:
        queue = frontier.queue(host)
        assert queue is not None and 0 < queue.expenditure <= BUDGET + 1


@pytest.mark.parametrize(
    ("url", "status", "why"),
    [
        ("http://header.test/", "-5", "header"),
        ("http://zeros.test/", "200", "Trunc"),
        ("http://short.test/", "200", "Trunc"),
        ("http://cookies.test/", "-5", "header"),
    ],
)
def test_the_log_says_why(crawled: tuple[HostileWeb, Path, str, int], url: str, status: str, why: str) -> None:
    line = log(crawled[1])[url]
    assert line[1] == status and why.lower() in line[-1].lower(), line


def crawled_alone(host: Host, folder: Path, **fetch: object) -> list[str]:
    """Crawl one host by itself, as the others need all the time that a busy machine takes; its line of crawl.log."""
    with HostileWeb({"bad.test": host}) as web:
        fetch |= {"resolve": {"*.test": web.address}, "robots": "ignore"}
        frontier = {"politeness": {"min_delay": 0, "max_delay": 0}, "retry": {"max_retries": 1, "delay": 0}}
        settings = Settings.from_dict({"seeds": ["http://bad.test/"], "fetch": fetch, "frontier": frontier})
        assert run(settings, folder)[0] == 0
    return log(folder)["http://bad.test/"]


def test_a_host_that_never_answers_is_given_up(tmp_path: Path) -> None:
    line = crawled_alone(hostile.never_answers, tmp_path, first_byte_timeout=0.2)
    assert line[1] == "-4" and "first_byte_timeout" in line[-1]
    with Frontier.open(tmp_path / "frontier") as frontier:
        queue = frontier.queue("bad.test")
        assert queue is not None and queue.expenditure == 2 and frontier.summary().dead == 1


def test_a_host_that_sends_a_byte_at_a_time_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "WINDOW", 0.2)  # else it takes 20 s
    line = crawled_alone(hostile.a_byte_at_a_time, tmp_path, min_speed=100, timeout=PATIENCE)
    assert line[1] == "200" and "timeTrunc" in line[-1] and "min_speed" in line[-1]
    with Frontier.open(tmp_path / "frontier") as frontier:
        queue = frontier.queue("bad.test")
        assert queue is not None and queue.expenditure == 1


def test_traps_end_at_their_budget(crawled: tuple[HostileWeb, Path, str, int]) -> None:
    web, job, _, _ = crawled
    with Frontier.open(job / "frontier") as frontier:
        for host in ("redirects.test", "calendar.test"):
            queue = frontier.queue(host)
            assert queue is not None and queue.state is QueueState.RETIRED
            assert sum(count for place, count in web.hits.items() if place.startswith(host + "/")) <= BUDGET + 2


def test_loops_and_session_ids_are_seen_through(crawled: tuple[HostileWeb, Path, str, int]) -> None:
    hits = crawled[0].hits
    assert sum(hits[f"{host}.test/"] for host in ("ping", "pong")) <= 3
    assert sum(count for place, count in hits.items() if place.startswith("sessions.test/")) <= 5


def test_of_a_robots_txt_without_end_the_beginning_counts(crawled: tuple[HostileWeb, Path, str, int]) -> None:
    hits = crawled[0].hits
    assert hits["robots.test/yes"] == 1 and hits["robots.test/no"] == 0


def test_no_link_leads_into_the_private_network(crawled: tuple[HostileWeb, Path, str, int]) -> None:
    web, job, _, _ = crawled
    lines = log(job)
    for url in (
        f"http://127.0.0.1:{web.port}/",
        f"http://localhost:{web.port}/",
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1/decimal",
        "http://127.0.0.1/hex",
        "http://[::1]:1/v6",
    ):
        refused = lines[urljoin(url, "/robots.txt") if "localhost" in url else url]
        assert int(lines[url][1]) < 0 and refused[1] == str(BLOCKED) and "allow_private" in refused[-1]
    assert not {"127.0.0.1/", "localhost/"} & set(web.hits)


def test_what_is_no_web_address_is_no_link(crawled: tuple[HostileWeb, Path, str, int]) -> None:
    links = (crawled[1] / "logs/links.jsonl").read_text()
    assert "alert(1)" not in links and "/etc/passwd" not in links and "ftp.test" not in links
