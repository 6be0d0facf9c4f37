"""Jobs of Heritrix 3 as configurations: the values, and a remark with its line for all that is left out."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as examples_of
from hypothesis.strategies import DataObject, data, integers, sampled_from

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.scope import Scope
from budgetfrontier.settings import Settings
from budgetfrontier.tools.heritrix.migration import CONFIGURATION, migrate
from budgetfrontier.tools.heritrix.spring import java_properties

JOBS = Path(__file__).parents[2] / "data/heritrix"
NAMES = sorted(folder.name for folder in JOBS.iterdir())
JARS = Path.home() / ".m2/repository/org/archive/heritrix/heritrix-engine"
PROFILE = "org/archive/crawler/restlet/profile-crawler-beans.cxml"
HEAD = '<beans xmlns="http://www.springframework.org/schema/beans">'
FRONTIER = '<bean id="frontier" class="org.archive.crawler.frontier.BdbFrontier"/>'


def migrated(source: Path, folder: Path) -> tuple[Settings, dict[int, str]]:
    """The settings of a migrated job, and what was remarked, by line."""
    migration = migrate(source, "crawl")
    folder.mkdir(exist_ok=True)
    for name, text in {"crawl.yaml": migration.text, **migration.files}.items():
        (folder / name).write_text(text)
    return Settings.from_yaml(folder / "crawl.yaml"), {remark.line: remark.what for remark in migration.remarks}


def job(folder: Path, *beans: str) -> Path:
    (folder / "job").mkdir()
    (folder / "job" / CONFIGURATION).write_text("\n".join([HEAD, FRONTIER, *beans, "</beans>"]))
    return folder / "job"


def test_a_broad_crawl(tmp_path: Path) -> None:
    settings, remarks = migrated(JOBS / "broad", tmp_path)
    frontier, fetch = settings.frontier, settings.fetch
    assert settings.crawl == "national-2026"
    assert [seed.url for seed in settings.seeds] == ["http://www.example.example/", "http://library.example"]
    assert (frontier.balance_replenish_amount, frontier.queue_total_budget) == (500, 10_000)
    assert (frontier.error_penalty_amount, frontier.retire_when) == (100, "reached")
    assert (frontier.cost_policy, frontier.queue_assignment_policy) == ("wag", "hostname")
    assert (frontier.politeness.delay_factor, frontier.politeness.min_delay) == (2.5, 1.5)
    assert (fetch.concurrency, fetch.timeout, fetch.max_body, fetch.robots) == (200, 1200, 100_000_000, "ignore")
    assert re.fullmatch(r"library_bot/[\d.]+ \(\+https://library.example/crawler\)", fetch.user_agent)
    assert (settings.limits.max_time, settings.output.warc, settings.output.warc_prefix) == (604_800, True, "NL")
    assert settings.output.warc_operator == "The Library"
    assert not frontier.defer_to_previous
    assert frontier.politeness.max_bandwidth == 512_000
    assert settings.frontier.quotas.queue == {"bytes": 512_000_000}
    assert settings.sheets == {
        "gentle": {"politeness.min_delay": 10.0, "queue_total_budget": 50},
        "never": {"queue_total_budget": 0},
        "unused": {"retry.max_retries": 3},
    }
    assert [(one.sheets, one.match, one.order) for one in settings.associations] == [
        (("gentle",), ("surt:(example,shop,www,)/", "surt:(example,shop,"), 0),
        (("never",), ("regex:/calendar/",), 1),
    ]
    assert remarks == {
        16: "nothing.here",
        27: "metadata.audience=everyone",
        33: "the seed ftp://files.example/",
        36: "seeds.blockAwaitingSeedLines=10",
        48: "TransclusionDecideRule.maxTransHops",
        50: "MatchesFilePatternDecideRule",
        76: "quotaEnforcer.serverMaxAllKb=9",
        80: "warcWriter.compress=true",
        92: "frontier.errorPenaltyAmount=many",
        93: "frontier.snoozeLongMs=300000",
        104: "gentle: fetchHttp.timeoutSeconds",
    }
    scope = Scope(settings.scope)
    assert accepts(scope, "http://m.museum.example/")
    assert accepts(scope, "http://other.example/logo.png", hops="LE")
    assert not accepts(scope, "http://other.example/")


def accepts(scope: Scope, url: str, hops: str = "L") -> bool:
    return scope.objection(CrawlUri(url, hops=hops)) is None


def test_a_crawl_of_parts_of_sites(tmp_path: Path) -> None:
    settings, remarks = migrated(JOBS / "focused", tmp_path)
    frontier, fetch = settings.frontier, settings.fetch
    assert [(seed.url, seed.source) for seed in settings.seeds] == [
        ("http://www.example.org/news/", "http://www.example.org/news/"),
        ("https://www.example.net/a/b.html", "https://www.example.net/a/b.html"),
    ]
    assert (frontier.retry.max_retries, frontier.retry.delay, frontier.precedence) == (5, 60, 2)
    assert frontier.balance_replenish_amount == 10**12
    assert frontier.queue_assignment_policy == "surt-authority"
    assert frontier.canonicalization_policy == {"rules": ["strip-www-n", {"regex": "(.*)#.*", "format": "$1"}]}
    assert fetch.proxy == "http://proxy.example:3128"
    assert not fetch.verify_tls
    assert fetch.requests[0].headers == {"Accept": "text/html", "Accept-Language": "de"}
    assert (settings.output.warc, settings.links.sitemaps, settings.links.prefer_embeds) == (False, True, True)
    assert settings.output.warc_description == "News & notes"
    assert [*remarks] == [17, 25, 49, 52, 57]
    scope = Scope(settings.scope)
    inside = ("http://www.example.org/news/1", "https://www.example.net/a/c", "http://x.example.com/")
    outside = ("http://www.example.org/sport/", "http://www.example.net/b", "http://media.example.org/2025/")
    rejected = ("http://example.com/?sid=1", "http://example.com/print/12", "http://example.com/a/b/a/b/a/b/a/")
    assert [url for url in inside if not accepts(scope, url)] == []
    assert [url for url in (*outside, *rejected) if accepts(scope, url)] == []
    assert accepts(scope, "http://media.example.org/2026/1")
    assert accepts(scope, "http://example.com/print/12/more")  # DecideRules match whole URIs


def test_what_has_no_counterpart_is_listed(tmp_path: Path) -> None:
    settings, remarks = migrated(JOBS / "unusual", tmp_path)
    assert [seed.url for seed in settings.seeds] == ["http://a.example/"]
    assert settings.frontier.precedence_floor == 10
    assert [rule.rule for rule in settings.scope.rules] == ["all"]
    assert [*remarks] == [4, 5, 6, 7, 8, 18, 20, 23, 24, 25, 29, 32, 38, 44, 48, 49, 51, 53]


@pytest.mark.parametrize("name", NAMES)
def test_no_property_is_dropped_without_a_remark(name: str, tmp_path: Path) -> None:
    """Each bean gets a property that nothing knows: it is remarked on, or the whole bean is."""
    text = (JOBS / name / CONFIGURATION).read_text()
    spoiled = re.sub(r"(<bean\b[^>]*?)\s*/>", r"\1></bean>", text)
    spoiled = re.sub(r"<bean\b[^>]*>", lambda bean: f'{bean[0]}<property name="zzz" value="1"/>', spoiled)
    (tmp_path / "job").mkdir()
    (tmp_path / "job/seeds.txt").write_text("")
    (tmp_path / "job" / CONFIGURATION).write_text(spoiled)
    remarks = migrate(tmp_path / "job", "crawl").remarks
    beans = [number for number, line in enumerate(spoiled.splitlines(), 1) if '"zzz"' in line]
    assert len(beans) >= 10
    reported = {remark.line for remark in remarks}
    within = [line for line in beans if line not in reported]
    nested = {"unusual": [30], "broad": [], "focused": []}[name]  # in a property that is itself left out
    assert within == nested


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('<!DOCTYPE beans [<!ENTITY a "aaaa">]><beans>&a;</beans>', "1: the entity 'a' is declared"),
        ('<!DOCTYPE beans [<!ENTITY a SYSTEM "file:///etc/passwd">]><beans>&a;</beans>', "1: the entity 'a'"),
        ("<beans>\n<bean>\n</beans>", "3:3: no XML: mismatched tag"),
        ("", "1:1: no XML: no element found"),
        ("<html/>", "1: expected <beans>"),
        ("<beans>" + "<bean>" * 200 + "</bean>" * 200 + "</beans>", "1: more than 100 elements"),
        ("<beans/>", "there is no bean of the class BdbFrontier"),
    ],
)
def test_what_is_no_configuration_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / CONFIGURATION).write_text(text)
    with pytest.raises(FrontierError, match=re.escape(words)):
        migrate(tmp_path, "crawl")


def test_a_program_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "crawler-beans.groovy").write_text("beans { }")
    with pytest.raises(FrontierError, match="in Groovy is a program, which is not run"):
        migrate(tmp_path, "crawl")
    with pytest.raises(FrontierError, match="there is no such file; give the folder of a job"):
        migrate(tmp_path / "nowhere", "crawl")


def test_many_seeds_become_a_file(tmp_path: Path) -> None:
    urls = "\n".join(f"http://{n}.example/" for n in range(100))
    source = job(
        tmp_path,
        '<bean id="seeds" class="org.archive.modules.seeds.TextSeedModule"><property name="textSource">'
        f'<bean class="org.archive.spring.ConfigString"><property name="value"><value>{urls}</value></property></bean>'
        "</property></bean>",
    )
    settings, _ = migrated(source, tmp_path / "out")
    assert [seed.file for seed in settings.seeds] == [str(tmp_path / "out/crawl.seeds.txt")]
    assert (tmp_path / "out/crawl.seeds.txt").read_text() == urls + "\n"


def test_properties_of_java() -> None:
    text = "! a comment\n a.b : c\\\n   d\nwith\\ blank=\\u00e9\\t|\nempty\n\\#x=#y"
    found: list[Any] = [*java_properties(text, 1)]
    assert found == [("a.b", "cd", 2), ("with blank", "é\t|", 4), ("empty", "", 5), ("#x", "#y", 6)]


@pytest.mark.skipif(not [*JARS.glob("*/*.jar")], reason="Heritrix is not among Maven's jars: make heritrix fetches it")
def test_the_default_profile_of_the_published_jar(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    with zipfile.ZipFile(sorted(JARS.glob("*/*.jar"))[-1]) as archive:
        (tmp_path / "job" / CONFIGURATION).write_bytes(archive.read(PROFILE))
    settings, remarks = migrated(tmp_path / "job", tmp_path)
    assert [seed.url for seed in settings.seeds] == ["http://example.example/example"]
    rules = [("accept" if rule.accept else "reject", rule.rule) for rule in settings.scope.rules]
    assert rules == [
        ("accept", "seed-hosts"), ("reject", "hops:>20"), ("accept", "embeds"), ("reject", "repeats:>2"),
        ("reject", "depth:>20"),
    ]  # fmt: skip
    assert settings.output.warc
    assert sorted(remarks.values()) == [
        "cookieStore (BdbCookieStore)", "extractorJs (ExtractorJS)", "extractorSwf (ExtractorSWF)",
        "fetchDns (FetchDNS)", "metadata.operatorContactUrl",
    ]  # fmt: skip


def test_policies_have_their_options(tmp_path: Path) -> None:
    source = job(
        tmp_path,
        '<bean id="uniq" class="org.archive.crawler.util.BloomUriUniqFilter"/>',
        '<bean id="queues" class="org.archive.crawler.frontier.HostnameQueueAssignmentPolicyWithLimits">',
        '<property name="limit" value="2"/><property name="parallelQueues" value="4"/></bean>',
        '<bean id="same" class="org.archive.modules.canonicalize.RulesCanonicalizationPolicy"><property name="rules">',
        '<list><bean class="org.archive.modules.canonicalize.LowercaseRule"/></list></property></bean>',
    )
    path = source / CONFIGURATION
    policy = '<bean class="org.archive.crawler.frontier.precedence.SuccessCountsQueuePrecedencePolicy"/>'
    prop = f'<property name="queuePrecedencePolicy">{policy}</property>'
    path.write_text(path.read_text().replace(FRONTIER, FRONTIER.replace("/>", f">{prop}</bean>")))
    frontier = migrated(source, tmp_path / "out")[0].frontier
    assert frontier.duplicates == "bloom"
    assert frontier.precedence_policy == {"success-counts": {"tiers": "100,1000", "base": 3}}
    assert frontier.queue_assignment_policy == {"hostname": {"limit": 2, "parallel_queues": 4}}
    assert frontier.canonicalization_policy == {"rules": ["lowercase"]}


def test_a_sequence_of_rules_within_itself_ends(tmp_path: Path) -> None:
    rule = '<bean class="org.archive.modules.deciderules.AcceptDecideRule"/>'
    source = job(
        tmp_path,
        '<bean id="scope" class="org.archive.modules.deciderules.DecideRuleSequence"><property name="rules"><list>',
        f'{rule}<ref bean="scope"/><ref bean="nowhere"/></list></property></bean>',
    )
    settings, remarks = migrated(source, tmp_path / "out")
    assert [rule.rule for rule in settings.scope.rules] == ["all"]
    assert remarks == {1: "metadata.operatorContactUrl", 3: "scope (DecideRuleSequence)", 4: "scope.rules"}


@pytest.mark.parametrize("name", NAMES)
@given(data())
@examples_of(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_is_an_error_or_a_migration(name: str, tmp_path: Path, drawn: DataObject) -> None:
    """Lines are removed, repeated or exchanged, and words replaced by others of the file."""
    text = (JOBS / name / CONFIGURATION).read_text()
    lines = text.splitlines()
    words = sorted(set(re.findall(r"[\w.]+", text)))
    for _ in range(drawn.draw(integers(1, 4))):
        at, other = drawn.draw(integers(0, len(lines) - 1)), drawn.draw(integers(0, len(lines) - 1))
        match drawn.draw(integers(0, 3)):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[other])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case _:
                word = drawn.draw(sampled_from(words))
                lines[at] = re.sub(r"[\w.]+", word, lines[at], count=drawn.draw(integers(1, 6)))
    (tmp_path / CONFIGURATION).write_text("\n".join(lines))
    try:
        migration = migrate(tmp_path, "crawl")
    except FrontierError as error:
        assert str(error).startswith(str(tmp_path / CONFIGURATION))
    else:
        assert yaml.safe_load(migration.text)["scope"]["accept"] == []
