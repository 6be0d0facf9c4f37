"""One host in all its spellings, in every place where a host, a queue key, a SURT or a glob is given.

Each place is a function of a spelling, which tells whether the place takes it for the host of `SITE`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from budgetfrontier import Admission, CrawlUri, Frontier
from budgetfrontier.bus.partitioning import by_host
from budgetfrontier.cluster.partitions.routing import Router, partition_of_queue
from budgetfrontier.core import uris
from budgetfrontier.core.uris import robots_url
from budgetfrontier.crawler.fetch.ports import BlockedPortError, check_port
from budgetfrontier.crawler.fetch.refusals import exempt_endpoints
from budgetfrontier.crawler.fetch.resolver import Resolver
from budgetfrontier.errors import InvalidUrl, SettingsError
from budgetfrontier.reports.host_allowlist import HostAllowlist
from budgetfrontier.rules.queue_keys import queue_key_for
from budgetfrontier.rules.scope import Scope
from budgetfrontier.settings import Settings
from budgetfrontier.settings.matching import parse_match, queue_test
from budgetfrontier.settings.overrides import Effective, validate_override
from budgetfrontier.settings.schema import ScopeRule, ScopeSettings
from budgetfrontier.settings.surts import surt_prefix
from budgetfrontier.tools.cli import main

HOST = "xn--bcher-kva.example"
SITE = f"http://{HOST}/"
OTHER = "http://other.example/"
SPELLINGS = [
    "xn--bcher-kva.example",
    "XN--BCHER-KVA.Example",
    "b\u00fccher.example",
    "B\u00dcCHER.EXAMPLE.",
    f"{HOST}.",
]
PARTITIONS = 64

spelled = pytest.mark.parametrize("spelling", SPELLINGS)


def by_scope(rule: str) -> bool:
    scope = Scope(ScopeSettings(accept=(), rules=(ScopeRule(accept=True, rule=rule),)))
    of_site, of_other = (scope.verdict(CrawlUri(url, hops="L")) for url in (f"{SITE}a", f"{OTHER}a"))
    return of_site.accepted and not of_other.accepted


def by_seeds(rule: str, seed: str) -> bool:
    scope = Scope(ScopeSettings(accept=(rule,)))
    scope.add_seeds([seed])
    return scope.verdict(CrawlUri(SITE, hops="L")).accepted


def by_override(match: str) -> bool:
    effective = Effective(Settings().frontier, [validate_override(match, {"precedence": 1})])
    return effective.for_uri(SITE, HOST).precedence == 1 and effective.for_uri(OTHER, "other.example").precedence != 1


def resolves(pattern: str, host: str) -> bool:
    async def resolve() -> str:
        [found] = await Resolver({pattern: "127.0.0.1:8080"}).resolve(host, 80)
        return found["host"]

    return asyncio.run(resolve()) == "127.0.0.1"


def surt(spelling: str) -> str:
    return ",".join(reversed(spelling.split(".")))


PLACES: dict[str, Callable[[str], bool]] = {
    "URL": lambda host: uris.host(uris.parse(f"https://{host}:443/")) == HOST,
    "URL with a port": lambda host: uris.authority(uris.parse(f"https://u@{host}:80/")) == f"{HOST}:80",
    "SURT": lambda host: uris.surt(uris.parse(f"http://{host}/a")) == "http://(example,xn--bcher-kva,)/a",
    "robots.txt": lambda host: robots_url(uris.parse(f"http://{host}/a")) == f"{SITE}robots.txt",
    "domain": lambda host: by_override(f"domain:{host}"),
    "host": lambda host: by_override(f"host:{host}"),
    "glob of hosts": lambda host: by_override(f"host:{host.replace('.', '.*', 1)}"),
    "queue": lambda host: by_override(f"queue:{host}"),
    "queue with a port": lambda host: by_override(f"queue:{host}:80"),
    "glob of queues": lambda host: by_override(f"queue:{host.replace('.', '.*', 1)}"),
    "list of queues": lambda host: by_override(f"queues:none.example,{host}"),
    "list of queues with ports": lambda host: by_override(f"queues:none.example:443,{host}:443"),
    "SURT prefix": lambda host: by_override(f"surt:({surt(host)},"),
    "SURT prefix with a scheme": lambda host: by_override(f"surt:HTTP://({surt(host)},:80)/"),
    "selection": lambda host: (
        bool(queue_test(host)(SITE, HOST, None)) and not queue_test(host)(OTHER, "other.example", None)
    ),
    "selection with a port": lambda host: bool(queue_test(f"{host}:80")(SITE, HOST, None)),
    "scope: domain": lambda host: by_scope(f"domain:{host}"),
    "scope: host": lambda host: by_scope(f"host:{host}"),
    "scope: surt": lambda host: by_scope(f"surt:({surt(host)},)/a"),
    "scope: SURT of a file": lambda host: surt_prefix(f"({surt(host)},:80)/A") == "(example,xn--bcher-kva,)/A",
    "scope: host of a file": lambda host: surt_prefix(f"{host}/") == "(example,xn--bcher-kva,)/",
    "scope: seed-hosts": lambda host: by_seeds("seed-hosts", f"https://www.{host}/"),
    "scope: seed-domains": lambda host: by_seeds("seed-domains", f"https://shop.{host}/"),
    "fetch.resolve": lambda host: resolves(host, HOST) and resolves(HOST, uris.parse(f"http://{host}/")[7:-1]),
    "exemption of seeds": lambda host: exempt_endpoints([f"http://{host}:25/"]).ports == {(HOST, 25)},
    "our own servers": lambda host: f"{host}:80" in HostAllowlist([host.lower()]),
    "partition on the bus": lambda host: by_host(f"https://{host}/", PARTITIONS) == by_host(SITE, PARTITIONS),
    "partition": lambda host: Router(Settings(), PARTITIONS).partition(f"https://{host}/") == of_queue(HOST),
    "partition of a key": lambda host: of_queue(host) == of_queue(f"{host}:80") == of_queue(HOST),
    "forced key": lambda host: queue_key_for(CrawlUri(SITE, queue=host), lambda uri: "never") == HOST,
}


def of_queue(key: str) -> int:
    return partition_of_queue(key, PARTITIONS)


@spelled
@pytest.mark.parametrize("place", PLACES)
def test_each_place_takes_each_spelling_for_the_host(place: str, spelling: str) -> None:
    assert PLACES[place](spelling)


POLICIES = {
    "hostname": HOST,
    "surt-authority": "example,xn--bcher-kva,",
    "registered-domain": HOST,
}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_host_has_one_queue_and_each_of_its_pages_is_admitted_once(policy: str) -> None:
    with Frontier.open(":memory:", _settings(policy)) as f:
        assert f.schedule(SITE) is Admission.ADDED
        for host in SPELLINGS:
            for url in (f"http://{host}/", f"http://{host}:80/", CrawlUri(f"http://u@{host}/")):
                assert f.schedule(url) is Admission.DUPLICATE
            tally = f.schedule_many(f"http://{host}/{n}" for n in range(3))
            assert (tally.added, tally.duplicate) == ((3, 0) if host == SPELLINGS[0] else (0, 3))
        assert [queue.queue for queue in f.report().queues] == [POLICIES[policy]]
        f.check()


def _settings(policy: str) -> Settings:
    return Settings.from_dict({"frontier": {"queue_assignment_policy": policy}})


def test_the_url_is_kept_as_it_was_found(tmp_path: Path) -> None:
    """What is fetched is what the link says: a resolver takes the dot for the end of the name."""
    with Frontier.open(tmp_path / "f") as f:
        f.schedule("http://a.test./1")
        f.schedule("http://a.test/2")
    with Frontier.open(tmp_path / "f") as f:
        [first] = f.lease(2)
        assert (first.uri.url, first.queue) == ("http://a.test./1", "a.test")
        f.check()


@spelled
@pytest.mark.parametrize("port", ["", ":80", ":443", ":"])
def test_calls_and_commands_find_a_queue(spelling: str, port: str) -> None:
    with Frontier.open(":memory:") as f:
        f.schedule(SITE)
        key = spelling + port
        found = f.queue(key)
        assert found is not None and found.queue == HOST
        assert f.retire(key) and f.unretire(key) and f.snooze(key, until=2e9) and f.wake(key)
        assert {entry.args["queue"] for entry in f.audit()} == {HOST}
        assert f.delete(queue=key, dry_run=True) == 1
        assert f.delete(queue=f"{spelling.rstrip('.')[:-1]}*") == 1


def test_a_key_that_is_no_host_is_found_by_its_very_text() -> None:
    """Keys that a caller forces are any text: only what no queue has is looked up in another spelling."""
    with Frontier.open(":memory:") as f:
        for key in ("News", "news", "10", "0.0.0.10", "a.test:80", "[::1]", "1, 2"):
            f.schedule(CrawlUri(f"http://{key.encode().hex()}.test/", queue=key))
            found = f.queue(key)
            assert found is not None and found.queue == key
        assert f.queue("NEWS") is not None and f.queue("a.test") is None


@spelled
def test_the_command_line_takes_each_spelling(
    tmp_path: Path, spelling: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job"
    with Frontier.open(job / "frontier") as f:
        f.schedule(SITE)
    for command in ("queue", "retire", "unretire", "wake"):
        assert main([command, str(job), f"{spelling}:80"]) == 0
    assert main(["adjust", str(job), "--queues", f"{spelling}:80", "--total-budget", "7"]) == 0
    told = capsys.readouterr()
    assert HOST in told.out and "matches 1 queue\n" in told.out and "no queue" not in told.out + told.err
    for port in ("", ":80", ":443"):
        assert main(["delete", str(job), "--queue", spelling + port, "--dry-run"]) == 0
        told = capsys.readouterr()
        assert "would delete 1 URI from 1 queue" in told.out and "no queue" not in told.err
    with Frontier.open(job / "frontier") as f:
        queue = f.queue(HOST)
        assert queue is not None and queue.total_budget == 7


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("EXAMPLE.org.", "example.org"),
        ("example.org..", "example.org.."),  # not a name of the DNS, and not the same host
        ("[0:0::1]", "[::1]"),
        ("0x7f.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("\uff25xample\u3002org\u3002", "example.org"),
    ],
)
def test_hosts_as_typed(text: str, form: str) -> None:
    assert uris.host_form(text) == form
    assert uris.host_form(form) == form


@pytest.mark.parametrize(
    "text", ["", "example.org:80", "http://example.org", "a/b", "u@example.org", "a b", "a?", "[::1", "::1"]
)
def test_what_is_no_host_alone_is_refused(text: str) -> None:
    with pytest.raises(InvalidUrl):
        uris.host_form(text)


def test_a_blocked_port_is_blocked_for_each_spelling() -> None:
    for host in ("a.test", "a.test."):
        check_port(f"http://{host}:25/", {("a.test", 25)})
        with pytest.raises(BlockedPortError):
            check_port(f"http://{host}:25/", ())


@pytest.mark.parametrize(
    "match",
    ["host:b\u00fc*.example", "surt:(example,b\u00fccher", "surt:http://(b\u00fccher", "domain:a b", "host:a/b"],
)
def test_a_pattern_that_could_match_nothing_is_refused(match: str) -> None:
    with pytest.raises(SettingsError, match="is not a host name"):
        parse_match(match)


def test_a_glob_of_fetch_resolve_that_could_match_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="expected a glob on hosts"):
        Settings.from_dict({"fetch": {"resolve": {"b\u00fc*.test": "127.0.0.1:80"}}})
