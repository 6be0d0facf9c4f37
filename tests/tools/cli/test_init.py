"""`init` with a sink, and with a Scrapy project: what it writes runs as it is."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from budgetfrontier import Report
from budgetfrontier.tools.cli import configure
from tests.crawler.site import Site
from tests.support import PATIENCE
from tests.tools.cli.conftest import Cli

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "docs/examples"
JOB = ROOT / "tests/data/heritrix/focused"


def linking(*links: str, title: str = "") -> str:
    return f"<title>{title}</title>" + "".join(f'<a href="{link}">{link}</a>' for link in links)


def run(folder: Path, program: str, *arguments: str, pythonpath: str = "") -> str:
    """Run an installed program in a folder, and return what it has written to stderr."""
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    environment = os.environ | {"PYTHONPATH": pythonpath}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_sink_of_init_stores_the_pages_of_its_crawl(tmp_path: Path, cli: Cli) -> None:
    config = tmp_path / "news" / "crawl.yaml"
    answer = cli("init", config, "--sink")
    assert (answer.code, answer.out) == (0, "")
    assert f"PYTHONPATH={config.parent} budgetfrontier check-config {config}\n" in answer.err
    with Site({"www.a.test/": linking("/1", title="Home"), "www.a.test/1": linking(title=" One\n")}) as site:
        written = config.read_text().replace("https://www.example.org/\n", "http://www.a.test/\n", 1)
        written = written.replace("  user_agent: my", f'  resolve: {{"*": "{site.address}"}}\n  user_agent: my', 1)
        config.write_text(written.replace("min_delay: 3s", "min_delay: 0s"))
        checked = run(config.parent, "budgetfrontier", "check-config", "crawl.yaml", pythonpath=".")
        assert checked.endswith("my-crawl: PYTHONPATH=. budgetfrontier crawl crawl.yaml\n")
        said = run(config.parent, "budgetfrontier", "crawl", "crawl.yaml", pythonpath=".")
        assert "crawl finished" in said and "command: PYTHONPATH=. budgetfrontier crawl crawl.yaml" in said
    with sqlite3.connect(config.with_name("pages.db")) as database:
        rows = database.execute("select url, title from pages order by url").fetchall()
    database.close()
    assert rows == [("http://www.a.test/", "Home"), ("http://www.a.test/1", "One")]


def test_a_sink_is_written_beside_a_configuration_that_stays_as_it_is(tmp_path: Path, cli: Cli) -> None:
    config = tmp_path / "crawl.yaml"
    config.write_text("crawl: mine\n")
    answer = cli("init", "--sink", config)
    assert answer.code == 0 and config.read_text() == "crawl: mine\n"
    line = next(line for line in answer.err.splitlines() if "is unchanged" in line).partition("unchanged: ")[2]
    config.write_text(f"crawl: mine\noutput:\n  {line}\n")
    checked = cli("check-config", config)
    assert checked.code == 4 and "install it, or name its folder in the environment variable PYTHONPATH" in checked.err
    assert "is valid" in run(tmp_path, "budgetfrontier", "check-config", "crawl.yaml", pythonpath=".")
    assert not (tmp_path / "pages.db").exists()


def test_init_with_a_sink_writes_both_files_or_none(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "my_sinks.py").write_text("mine")
    answer = cli("init", tmp_path / "crawl.yaml", "--sink")
    assert answer.code == 1 and "my_sinks.py: there is such a file, and nothing was written; to use" in answer.err
    assert f'of {tmp_path / "crawl.yaml"}: sinks: ["my_sinks:NAME"]; for a new one, name a FILE in' in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["my_sinks.py"]
    assert (tmp_path / "my_sinks.py").read_text() == "mine"


def test_without_a_name_init_writes_in_this_folder(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("init", "--sink").code == cli("init", "--scrapy").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["crawl.yaml", "my_sinks.py", "myproject", "scrapy.cfg"]
    assert cli("init").code == 1
    assert cli("init", "--sink", "--scrapy").code == 2


@pytest.mark.parametrize("options", [[], ["--sink"]])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".", ". is a folder; name the file, such as crawl.yaml"),
        ("", ". is a folder; name the file, such as crawl.yaml"),
        ("/", "/ is a folder; name the file, such as /crawl.yaml"),
        ("-", "nothing is written to standard output; name a file"),
    ],
)
def test_init_refuses_what_names_no_file(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str, why: str, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = cli("init", name, *options)
    assert answer.code == 2 and f"argument FILE: {why}" in answer.err
    assert cli("init", "my_sinks.py", "--sink").code == cli("init", "-", "--scrapy").code == 2
    assert not list(tmp_path.iterdir())


def test_the_scrapy_project_of_init_crawls_within_its_budget(tmp_path: Path, cli: Cli) -> None:
    project = tmp_path / "project"
    answer = cli("init", "--scrapy", project)
    assert (answer.code, answer.out) == (0, "")
    assert f"in the folder {project}: scrapy crawl pages -a url=" in answer.err
    months = {f"localhost/?month={n}": linking(f"/?month={n + 1}", title=f"Month {n}") for n in range(300)}
    pages = {"localhost/": linking("/?month=0", "http://other.test/"), "127.0.0.1/": linking("/a"), "127.0.0.1/a": "A"}
    with Site(pages | months) as site:
        local = site.address.replace("127.0.0.1", "localhost")
        seeds = f"url=http://{site.address}/,http://{local}/"
        run(project, "scrapy", "crawl", "pages", "-a", seeds, "-s", "DOWNLOAD_DELAY=0", "-o", "items.jsonl")
    items = [json.loads(line) for line in (project / "items.jsonl").read_text().splitlines()]
    titles = {item["url"]: item["title"] for item in items}
    assert len(titles) == 102 and titles[f"http://{local}/?month=98"] == "Month 98"
    report = Report.read(project / "job/frontier")
    rows = {row.queue: (row.expenditure, row.queued, row.state) for row in report.queues}
    assert rows == {site.address: (2, 0, "EXHAUSTED"), local: (100, 1, "RETIRED")}


def test_no_scrapy_project_is_written_into_another(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "scrapy.cfg").write_text("mine")
    answer = cli("init", "--scrapy", tmp_path)
    assert answer.code == 1 and 'its settings.py needs is this line: SCHEDULER = "budgetfrontier' in answer.err
    assert (tmp_path / "scrapy.cfg").read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


def test_the_templates_are_the_examples() -> None:
    """In a source distribution, which has no symbolic links, they are there twice."""
    templates, project = ROOT / "budgetfrontier/tools/cli/templates", EXAMPLES / "scrapy_project"
    assert {*configure.SCRAPY_PROJECT} == {
        str(path.relative_to(project)) for path in project.rglob("*.*") if path.suffix in (".py", ".cfg")
    }
    assert (templates / configure.SINK).read_text() == (EXAMPLES / "sqlite_sink" / configure.SINK).read_text()
    for name in configure.SCRAPY_PROJECT:
        assert (templates / "scrapy_project" / name).read_text() == (project / name).read_text()


def test_the_job_of_heritrix_becomes_files_and_no_file_twice(tmp_path: Path, cli: Cli) -> None:
    config = tmp_path / "crawl.yaml"
    answer = cli("init", "--heritrix", JOB, config)
    assert (answer.code, answer.out) == (0, "")
    assert f"{JOB / 'crawler-beans.cxml'}:49: MatchesRegexDecideRule: " in answer.err
    assert f"budgetfrontier check-config {config}" in answer.err
    assert f"budgetfrontier import JOB {JOB}" in answer.err
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(before) == ["crawl.seed-surts.txt", "crawl.surts2.txt", "crawl.yaml"]
    assert "#   49: MatchesRegexDecideRule: " in config.read_text()
    assert cli("check-config", config).code == 0
    (tmp_path / "crawl.yaml").unlink()
    assert cli("init", "--heritrix", JOB, config).code != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["crawl.seed-surts.txt", "crawl.surts2.txt"]
