"""The programs in docs/examples: each runs from an empty folder, as its users start it, on a site on this machine.

The Scrapy project is run by tests/tools/cli/test_init.py, as `init --scrapy` writes it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from budgetfrontier import Reader, Settings
from tests.crawler.site import Page, Site
from tests.installed import NotInstalled
from tests.server.urlfrontier.java_client import classpath
from tests.server.urlfrontier.service_client import serving
from tests.support import PATIENCE, free_port

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
LOCAL = ("127.0.0.1", "localhost")


def linking(*links: str) -> str:
    """A page whose first link is without quotes, and whose last is no URL, before a declaration that means nothing."""
    first, *others = links
    quoted = "".join(f'<a href="{link}">{link}</a>' for link in [*others, "http://["])
    return f"<title>To {len(links)}</title><a href={first}>{first}</a>{quoted}<![x[ ]]>"


def pages(*hosts: str) -> dict[str, Page]:
    """A site of four pages on each host, which links to a page that is missing, and to another site."""
    site = {"/": linking("/a", "b", "http://elsewhere.test/"), "/a": linking("/"), "/b": linking("/c/d/e?f=1")}
    return {f"{host}{path}": page for host in hosts for path, page in {**site, "/c/d/e?f=1": linking("/no")}.items()}


def seeds(site: Site) -> list[str]:
    return [f"http://{site.address}/", f"http://{site.address.replace(*LOCAL)}/"]


def run(folder: Path, *command: str | Path, **environment: str) -> str:
    """Run a program in a folder, and return what it has printed."""
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_python(folder: Path, name: str, *arguments: str) -> str:
    """Run an example in Python."""
    return run(folder, sys.executable, "-W", "error", EXAMPLES / name, *arguments)


def crawl_yaml(folder: Path, name: str, site: Site) -> Path:
    """Run the crawl of an example in YAML, whose site is on port 8000, in a copy of its folder; return the copy."""
    copy = folder / name
    shutil.copytree(EXAMPLES / name, copy)
    config = copy / "crawl.yaml"
    config.write_text(config.read_text().replace(":8000", f":{site.address.rpartition(':')[2]}"))
    program = Path(sys.executable).with_name("budgetfrontier")
    for command in ("check-config", "crawl"):
        run(copy, program, command, "crawl.yaml", PYTHONPATH=".")
    return copy


@pytest.fixture
def site() -> Iterator[Site]:
    with Site(pages(*LOCAL)) as site:
        yield site


def test_threads(tmp_path: Path, site: Site) -> None:
    assert run_python(tmp_path, "threads_crawler.py", *seeds(site)) == (
        "10 fetched, 0 given up; hosts over their budget: 0\n"
    )
    assert site.hits == dict.fromkeys([*pages(*LOCAL), *(f"{host}/no" for host in LOCAL)], 1)
    run_python(tmp_path, "threads_crawler.py", *seeds(site))
    assert site.hits.total() == 10, "the second run knows what the first has fetched"


def test_asyncio(tmp_path: Path, site: Site) -> None:
    site.pages["localhost/robots.txt"] = "User-agent: *\nDisallow: /a\n"
    run_python(tmp_path, "asyncio_crawler.py", *seeds(site))
    fetched = {*pages(*LOCAL), *(f"{host}{path}" for host in LOCAL for path in ("/no", "/robots.txt"))}
    assert site.hits == dict.fromkeys(fetched - {"localhost/a"}, 1)
    lines = [json.loads(line) for line in (tmp_path / "titles.jsonl").read_text().splitlines()]
    assert len(lines) == 7 and {"url": seeds(site)[0], "title": "To 3"} in lines


@pytest.mark.parametrize("name", ["asyncio_crawler.py", "recrawler.py", "threads_crawler.py"])
def test_a_program_without_arguments_says_how_it_is_used(tmp_path: Path, name: str) -> None:
    done = subprocess.run([sys.executable, EXAMPLES / name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode > 0 and done.stderr.startswith("usage: ") and not list(tmp_path.iterdir())


def test_a_page_that_changes_is_fetched_as_often_as_may_be_and_another_less_and_less_often(
    tmp_path: Path, site: Site
) -> None:
    number = count()
    site.pages["127.0.0.1/news"] = lambda: web.Response(text=str(next(number)))
    urls = [f"http://{site.address}/{path}" for path in ("a", "news")]
    printed = run_python(tmp_path, "recrawler.py", "--visits", "8", "--shortest", "0.05", *urls)
    for url, factor in zip(urls, (2, 1), strict=True):
        intervals = [float(each) for each in re.findall(rf"{url} was fetched, and will be again in (\S+) s", printed)]
        assert len(intervals) >= 2 and intervals == [0.05 * factor**visit for visit in range(len(intervals))]
    assert site.hits.total() == printed.count("\n") == 8


def test_policies_of_ones_own(tmp_path: Path) -> None:
    hosts = ("www.shop.test", "m.shop.test", "www.news.test")
    with Site(pages(*hosts)) as site:
        folder = crawl_yaml(tmp_path, "own_policy", site)
    with Reader(folder / "own-policy/frontier") as reader:
        spent = {queue.queue: queue.expenditure for queue in reader.queues()}
    assert spent == {"shop": 2 * 7, "www.news.test": 7}, "of five pages, /c/d/e?f=1 costs 3"


def test_a_sink_to_sqlite(tmp_path: Path, site: Site) -> None:
    folder = crawl_yaml(tmp_path, "sqlite_sink", site)
    database = sqlite3.connect(folder / "pages.db")
    rows = database.execute("select url, title from pages order by fetched").fetchall()
    database.close()
    home = seeds(site)[1]
    assert rows[0] == (home, "To 3")
    assert {row[0] for row in rows} == {f"{home}{path}" for path in ("", "a", "b", "c/d/e?f=1")}


def test_a_crawler_in_java(tmp_path: Path, site: Site) -> None:
    try:
        jars = classpath("2.5").rpartition(os.pathsep)[2]
    except NotInstalled as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"the crawler in Java was NOT run: {error}")
    settings = Settings.from_dict({"profile": "served", "frontier": {"politeness": {"min_interval": 0}}})
    address = f"127.0.0.1:{free_port()}"
    with serving(tmp_path / "jobs", settings=settings, listen=address):
        program = EXAMPLES / "java_client/Crawler.java"
        printed = run(tmp_path, "java", "-XX:TieredStopAtLevel=1", "-cp", jars, program, address, *seeds(site))
    *urls, stats = printed.splitlines()
    assert len(urls) == len(set(urls)) == site.hits.total() == 10
    assert json.loads(stats)["counts"] == {"active_queues": "0", "completed": "10"}


def outputs(notebook: Path) -> list[list[tuple[str, ...]]]:
    """The kinds of data that each cell of code has shown, and their text, but not the pictures."""
    cells: list[dict[str, Any]] = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)
    return [
        [(output["output_type"], *sorted(output["data"]), *output["data"]["text/plain"]) for output in cell["outputs"]]
        for cell in code
    ]


def test_the_notebook_shows_what_is_stored_in_it(tmp_path: Path) -> None:
    pytest.importorskip("nbclient")
    shutil.copy(EXAMPLES / "series.ipynb", tmp_path)
    folders = dict.fromkeys(("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"), str(tmp_path / "jupyter"))
    program = Path(sys.executable).with_name("jupyter-execute")
    options = ["--output=executed.ipynb", f"--startup_timeout={PATIENCE:.0f}", f"--timeout={PATIENCE:.0f}"]
    run(tmp_path, program, "series.ipynb", *options, **folders)
    shown = outputs(tmp_path / "executed.ipynb")
    assert sum(map(len, shown)) == 3 and shown == outputs(EXAMPLES / "series.ipynb")
    with Reader(tmp_path / "simulated/frontier") as reader:
        queues = {queue.queue: (queue.state, queue.expenditure) for queue in reader.queues()}
    assert queues["calendar.test"] == ("RETIRED", 1001) and queues["site-1.test"] == ("EXHAUSTED", 150)
