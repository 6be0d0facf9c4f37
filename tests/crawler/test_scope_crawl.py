"""Scope in a crawl, over loopback: asked when a link is found, before its fetch, and once the header is in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from budgetfrontier.engine.remote import steer
from budgetfrontier.errors import ScopeChanged
from budgetfrontier.reports.explain import explain
from budgetfrontier.storage.reader import Reader
from budgetfrontier.tools.cli import main
from tests.crawler.site import Page, Site, linking, run

HOME = "http://a.test/"


def fetched(site: Site) -> set[str]:
    return {place for place in site.hits if "robots" not in place}


def typed(mime: str, body: str = "x") -> Page:
    return lambda: web.Response(body=body.encode(), headers={"Content-Type": mime})


def outcomes(folder: Path) -> dict[str, tuple[str, str]]:
    """Status and annotations in crawl.log, by URL."""
    rows = [line.split() for line in (folder / "logs/crawl.log").read_text(encoding="utf-8").splitlines()]
    return {row[3]: (row[1], row[-1]) for row in rows}


def test_rules_refine_what_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text("listed.test\n", encoding="utf-8")
    scope: dict[str, Any] = {
        "accept": ["seed-hosts", "embeds", f"surt-file:{tmp_path / 'hosts.txt'}"],
        "reject": ["ext:zip", "repeats:>2"],
        "rules": [{"accept": "surt:(test,a,)/downloads/"}, {"reject": "depth:>3"}],
    }
    style = '<img src="http://cdn.test/i.png">' + linking(
        "/1.zip", "/downloads/2.zip", "/downloads/a/b/3.zip", "/x/x/x", "http://sub.listed.test/", "http://no.test/"
    )
    with Site({"a.test/": style}) as site:
        run(site.settings(HOME, scope=scope), tmp_path / "job")
    assert fetched(site) == {"a.test/", "cdn.test/i.png", "a.test/downloads/2.zip", "sub.listed.test/"}


def test_sitemaps_on_other_hosts_are_read_if_robots_txt_names_them(tmp_path: Path) -> None:
    """With the robots.txt of their own hosts, and charged to those; the pages in them are subject to the scope."""
    named = ("maps.test/index.xml", "maps.test/private.xml", "rejected.test/map.xml")
    index = (
        "<sitemapindex><sitemap>http://maps.test/a.txt</sitemap><sitemap>http://far.test/b.xml</sitemap></sitemapindex>"
    )
    pages: dict[str, Page] = {
        "a.test/": "page",
        "a.test/robots.txt": typed("text/plain", "".join(f"Sitemap: http://{each}\n" for each in named)),
        "maps.test/robots.txt": typed(
            "text/plain", "User-agent: *\nDisallow: /private\nSitemap: http://maps.test/own.xml"
        ),
        "maps.test/index.xml": typed("image/png", index),
        "maps.test/a.txt": typed("text/html", "http://a.test/deep\nhttp://maps.test/page\n"),
        "a.test/deep": "page",
    }
    with Site(pages) as site:
        settings = site.settings(HOME, scope={"reject": ["host:rejected.test"]}, output={"links": "jsonl"})
        assert run(settings, tmp_path)[0] == 0
    assert fetched(site) == {"a.test/", "a.test/deep", "maps.test/index.xml", "maps.test/a.txt"}
    assert outcomes(tmp_path)["http://maps.test/private.xml"][0] == "-9998"
    assert "http://rejected.test/map.xml" in (tmp_path / "logs/links.jsonl").read_text()
    with Reader(tmp_path / "frontier") as reader:
        queue = reader.queue("maps.test")
        assert queue is not None and queue.expenditure == 2


def test_an_answer_out_of_scope_is_not_read(tmp_path: Path) -> None:
    pages: dict[str, Page] = {
        "a.test/": linking("/picture", "/large", "/small"),
        "a.test/picture": typed("image/png", linking("/from-picture")),
        "a.test/large": typed("text/html", linking("/from-large") + "x" * 2000),
        "a.test/small": typed("text/html", linking("/from-small")),
    }
    scope = {"rules": [{"reject": "type:image/*"}, {"reject": "size:>1KiB"}]}
    with Site(pages) as site:
        run(site.settings(HOME, scope=scope), tmp_path)
    assert fetched(site) == {*pages, "a.test/from-small"}
    notes = {url: note for url, (_, note) in outcomes(tmp_path).items()}
    assert "midFetchAbort" in notes[HOME + "picture"] and "midFetchAbort" in notes[HOME + "large"]
    assert "midFetchAbort" not in notes[HOME + "small"]


def test_a_scope_that_changed_counts_for_what_is_queued(tmp_path: Path) -> None:
    pages: dict[str, Page] = {"a.test/": linking("/keep", "/drop.zip")}
    with Site(pages) as site:
        run(site.settings(HOME, limits={"max_uris": 2}), tmp_path)  # robots.txt and the seed
        assert fetched(site) == {"a.test/"}
        narrower = site.settings(HOME, scope={"reject": ["ext:zip"]})
        with pytest.raises(ScopeChanged, match="1 of 2 URIs"):
            run(narrower, tmp_path)
        steer(tmp_path / "frontier", "resume", {})
        _, said = run(narrower, tmp_path)
    assert fetched(site) == {"a.test/", "a.test/keep"}, said
    assert outcomes(tmp_path)[HOME + "drop.zip"][0] == "-5000"
    with Reader(tmp_path / "frontier") as reader:
        assert reader.summary().disregarded == 1
        assert "done" in [reason.code for reason in explain(reader, HOME + "drop.zip", job="job").reasons]


def test_a_dry_run_promises_nothing_that_a_changed_scope_disregards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = {"a.test/": linking(*[f"/{n}?sid=1" for n in range(8)], "/9"), "a.test/9": "x"}
    pages |= {f"a.test/{n}?sid=1": "x" for n in range(8)}
    budget = {"queue_total_budget": 2, "cost_policy": "unit"}
    with Site(pages) as site:
        run(site.settings(HOME, frontier=budget), tmp_path)
        narrower = site.settings(HOME, frontier=budget, scope={"reject": ["regex:sid="]})
        with pytest.raises(ScopeChanged):
            run(narrower, tmp_path)
        steer(tmp_path / "frontier", "resume", {})
        command = ["adjust", str(tmp_path), "--match", "queue:a.test", "--total-budget", "100"]
        assert main([*command, "--dry-run", "--format", "json"]) == 0
        promised = json.loads(capsys.readouterr().out)
        assert main([*command, "--dry-run"]) == 0
        held = promised["uris"] + promised["disregarded"]
        assert (
            promised["disregarded"]
            and f"{promised['disregarded']} URIs are out of the scope" in capsys.readouterr().out
        )
        with Reader(tmp_path / "frontier") as reader:
            before, queue = reader.summary(), reader.queue("a.test")
        assert queue is not None and held == queue.queued
        assert main(command) == 0
        run(narrower, tmp_path)
    with Reader(tmp_path / "frontier") as reader:
        after = reader.summary()
    assert after.expenditure - before.expenditure == promised["spend"]
    assert after.disregarded - before.disregarded == promised["disregarded"]
