"""Jobs of Heritrix 3 as configurations: the values, and a remark with its line for all that is left out."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.sax.saxutils import escape

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as examples_of
from hypothesis.strategies import DataObject, data, dictionaries, integers, sampled_from

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.scope import Scope
from budgetfrontier.settings import Settings
from budgetfrontier.tools.heritrix.counterparts import ASSIGNMENT_OPTIONS, PLAIN, QUOTAS
from budgetfrontier.tools.heritrix.migration import CONFIGURATION, migrate
from budgetfrontier.tools.heritrix.spring_xml import java_properties
from tests.examples import few

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


def job(folder: Path, *beans: str, frontier: str = FRONTIER) -> Path:
    (folder / "job").mkdir()
    (folder / "job" / CONFIGURATION).write_text("\n".join([HEAD, frontier, *beans, "</beans>"]))
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
        "never": {"balance_replenish_amount": 0},
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
    assert [*remarks] == [4, 7, 8, 18, 20, 23, 24, 29, 32, 38, 42, 48, 51, 53]


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
    # One is overridden by the bean that extends it, the others in properties that are themselves left out.
    assert within == {"unusual": [6, 30, 49], "broad": [], "focused": []}[name]


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


def test_lines_that_begin_as_no_seed_does_are_listed(tmp_path: Path) -> None:
    lines = "http://a.example/\n-http://b.example/\n*c.example\n_d\n# a comment\nf.example"
    source = job(
        tmp_path,
        '<bean id="seeds" class="org.archive.modules.seeds.TextSeedModule"><property name="textSource">'
        f'<bean class="org.archive.spring.ConfigString"><property name="value"><value>{lines}</value></property></bean>'
        "</property></bean>",
    )
    settings, remarks = migrated(source, tmp_path / "out")
    assert [seed.url for seed in settings.seeds] == ["http://a.example/", "http://f.example"]
    listed = "\n".join(remarks.values())
    assert all(f"the line {line}" in listed for line in ("-http://b.example/", "*c.example", "_d"))


def test_properties_of_java() -> None:
    text = "! a comment\n a.b : c\\\n   d\nwith\\ blank=\\u00e9\\t|\nempty\n\\#x=#y"
    found: list[Any] = [*java_properties(text, 1)]
    assert found == [("a.b", "cd", 2), ("with blank", "é\t|", 4), ("empty", "", 5), ("#x", "#y", 6)]


@pytest.mark.skipif(not [*JARS.glob("*/*.jar")], reason="needs a jar of Heritrix; .ci/system-packages fetches it")
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


def sheet(name: str) -> str:
    entry = '<entry key="frontier.queueTotalBudget" value="9"/>'
    return f'<bean id="{name}" class="a.Sheet"><property name="map"><map>{entry}</map></property></bean>'


def associated(names: str, *prefixes: str) -> str:
    lists = [f"<value>{name}</value>" for name in names.split()], [f"<value>{prefix}</value>\n" for prefix in prefixes]
    return (
        f'<bean class="a.SurtPrefixesSheetAssociation"><property name="targetSheetNames"><list>{"".join(lists[0])}'
        f'</list></property><property name="surtPrefixes"><list>\n{"".join(lists[1])}</list></property></bean>'
    )


def test_a_prefix_that_is_none_leaves_the_others_of_its_association(tmp_path: Path) -> None:
    settings, remarks = configured(
        tmp_path, sheet("s"), associated("s", "http://(org,example,", "junk"), associated("s", "http://x.test/")
    )
    assert settings["associations"] == [{"sheets": ["s"], "surt": ["(org,example,"]}]
    assert [remark for remark in remarks if not remark.startswith("1: ")] == [
        "6: junk: it is no SURT prefix, such as http://(org,example,; left out",
        "9: http://x.test/: it is no SURT prefix, such as http://(org,example,; left out",
    ]


def test_what_is_associated_twice_is_associated_once(tmp_path: Path) -> None:
    settings, remarks = configured(
        tmp_path, sheet("s"), sheet("t"), associated("s s", "http://(a,", "https://(a,"),
        associated("s t", "http://(a,", "http://(b,"), associated("t", "http://(b,"),
    )  # fmt: skip
    assert [(one["sheets"], one["surt"]) for one in settings["associations"]] == [
        (["s"], ["(a,"]), (["s"], ["(b,"]), (["t"], ["(a,", "(b,"]),
    ]  # fmt: skip
    assert [remark for remark in remarks if not remark.startswith("1: ")] == []


def test_a_sheet_whose_name_is_none_here_leaves_the_others_of_its_association(tmp_path: Path) -> None:
    settings, remarks = configured(tmp_path, sheet("a:b"), sheet("s"), associated("a:b s", "http://(b,"))
    assert settings["associations"] == [{"sheets": ["s"], "surt": ["(b,"]}]
    assert [remark for remark in remarks if not remark.startswith("1: ")] == [
        "3: the sheet a:b: expected the name of a sheet, of ASCII letters, digits, _, . and -; left out",
        "5: the sheet a:b: there is no such sheet, or it is left out",
    ]


BLOOM = '<bean class="a.BloomUriUniqFilter"><property name="bloomFilter"><bean class="a.BloomFilter64bit" {}</bean>'


@pytest.mark.parametrize(
    ("arguments", "sizes", "unread"),
    [
        ('><constructor-arg value="5000"/><constructor-arg value="20"/>', {"expected": 5000, "error": 9.5e-07}, []),
        ('><constructor-arg index="1" value="22"/><constructor-arg index="0" value="9"/>',
         {"expected": 9, "error": 2.4e-07}, []),
        ('xmlns:c="http://www.springframework.org/schema/c" c:d="10" c:_0="7">', {"expected": 7, "error": 0.00098}, []),
        ('><constructor-arg><value>7</value></constructor-arg><constructor-arg value="0"/><constructor-arg '
         'value="true"/>', {"expected": 7}, ["BloomFilter64bit.constructor-arg[1]=0: that is no value of this property",
         "BloomFilter64bit.constructor-arg[2]=true: no counterpart; left out"]),
        ('><constructor-arg value="-7"/>', {}, ["frontier.bloom.expected: -7: expected a whole number from 1 to "
         "10000000000, got -7; left out"]),
    ],
)  # fmt: skip
def test_the_size_of_a_bloom_filter(arguments: str, sizes: object, unread: list[str], tmp_path: Path) -> None:
    settings, remarks = configured(tmp_path, BLOOM.format(arguments), "</property></bean>")
    assert settings["frontier"]["duplicates"] == "bloom"
    assert settings["frontier"].get("bloom", {}) == sizes
    assert [remark for remark in remarks if not remark.startswith("1: ")] == [f"3: {remark}" for remark in unread]


@pytest.mark.parametrize("most", ["0", "-1"])
def test_a_crawl_that_takes_no_links_follows_none(most: str, tmp_path: Path) -> None:
    frontier = FRONTIER.replace("/>", f'><property name="maxOutlinks" value="{most}"/></bean>')
    rule = '<bean id="scope" class="a.AcceptDecideRule"/>'
    settings, remarks = configured(tmp_path, rule, frontier=frontier)
    assert settings["scope"]["max_hops"] == 0
    assert "max_per_page" not in settings["links"]
    assert any(remark.startswith(f"2: frontier.maxOutlinks={most}: Heritrix takes no links") for remark in remarks)
    scope = Scope(Settings.from_yaml(tmp_path / "crawl.yaml").scope)
    assert [accepts(scope, "http://a.example/", hops) for hops in ("", "P", "L", "E", "R")] == [True] * 2 + [False] * 3


@pytest.mark.parametrize(("size", "written"), [("-1", 0), ("1000", "1000B"), ("0", "1000000000B")])
def test_the_size_of_files(size: str, written: object, tmp_path: Path) -> None:
    writer = f'<bean class="a.WARCWriterChainProcessor"><property name="maxFileSizeBytes" value="{size}"/></bean>'
    settings, remarks = configured(tmp_path, writer)
    assert settings["output"]["warc_size"] == written
    assert any("maxFileSizeBytes" in remark for remark in remarks) is (size == "0")


CHAIN = '<bean class="org.archive.modules.{}Chain"><property name="processors"><list>{}</list></property></bean>'


def configured(folder: Path, *beans: str, frontier: str = FRONTIER) -> tuple[dict[str, Any], list[str]]:
    """The settings of a job of these beans, which are valid, and the remarks on it."""
    migration = migrate(job(folder, *beans, frontier=frontier), "crawl")
    for name, text in {"crawl.yaml": migration.text, **migration.files}.items():
        (folder / name).write_text(text)
    Settings.from_yaml(folder / "crawl.yaml")
    return yaml.safe_load(migration.text), [remark.text for remark in migration.remarks]


def test_what_is_turned_off_is_not_read(tmp_path: Path) -> None:
    off = 'xmlns:p="http://www.springframework.org/schema/p" p:enabled="false"'
    rule = "org.archive.modules.deciderules"
    settings, remarks = configured(
        tmp_path,
        f'<bean class="org.archive.crawler.prefetch.QuotaEnforcer" {off} p:hostMaxFetchSuccesses="5"/>',
        f'<bean class="org.archive.modules.writer.WARCWriterChainProcessor" {off} p:prefix="X" p:zzz="1"/>',
        f'<bean class="org.archive.modules.extractor.ExtractorSitemap" {off}/>',
        f'<bean class="org.archive.modules.extractor.ExtractorHTTP" {off}/>',
        f'<bean class="org.archive.modules.extractor.ExtractorJS" {off}/>',
        f'<bean id="disposition" class="a.DispositionProcessor" {off} p:minDelayMs="9"/>',
        '<bean class="org.archive.modules.canonicalize.RulesCanonicalizationPolicy"><property name="rules"><list>',
        f'<bean class="org.archive.modules.canonicalize.LowercaseRule" {off}/>',
        '<bean class="org.archive.modules.canonicalize.StripWWWRule"/></list></property></bean>',
        f'<bean id="scope" class="{rule}.DecideRuleSequence"><property name="rules"><list>',
        f'<bean class="{rule}.MatchesRegexDecideRule" {off} p:regex="("/>',
        f'<bean class="{rule}.PredicatedDecideRule" {off} p:what="1"/>',
        f'<bean class="{rule}.SeedAcceptDecideRule" {off}/>',
        f'<bean class="{rule}.DecideRuleSequence" {off}><property name="rules"><list>',
        f'<bean class="{rule}.AcceptDecideRule"/></list></property></bean>',
        f'<bean class="{rule}.PathologicalPathDecideRule"/></list></property></bean>',
    )
    assert "quotas" not in settings["frontier"]
    assert settings["output"] == {"warc": False}
    assert settings["links"]["sitemaps"] is False
    assert "favicon" not in settings["links"]
    assert "politeness" not in settings["frontier"]
    assert settings["frontier"]["canonicalization_policy"] == {"rules": ["strip-www"]}
    assert settings["scope"]["rules"] == [{"reject": "repeats:>2"}]
    assert [remark for remark in remarks if "metadata" not in remark and "TextSeedModule" not in remark] == [
        "8: disposition (DispositionProcessor): enabled: its work is always done here",
        "15: SeedAcceptDecideRule: enabled=false: such URIs are always in scope here",
    ]


@pytest.mark.parametrize(
    ("bean", "rules", "words"),
    [
        (
            '<bean class="a.CandidateScoper"><property name="enabled" value="false"/></bean>',
            ["all"],
            "accepts all URIs",
        ),
        (
            '<bean id="scope" class="a.AcceptDecideRule"><property name="enabled" value="false"/></bean>',
            [],
            "Heritrix accepts nothing; here, seeds are crawled",
        ),
        (
            '<bean class="a.CandidateScoper"><property name="scope" ref="own"/></bean><bean id="own" '
            'class="a.TooManyHopsDecideRule"/><bean id="scope" class="a.AcceptDecideRule"/>',
            ["hops:>20"],
            "",
        ),
    ],
)
def test_a_scope_that_is_turned_off(bean: str, rules: list[str], words: str, tmp_path: Path) -> None:
    settings, remarks = configured(tmp_path, bean)
    assert [next(iter(rule.values())) for rule in settings["scope"]["rules"]] == rules
    assert any(words in remark for remark in remarks)


def test_only_what_heritrix_runs_is_read(tmp_path: Path) -> None:
    """Processors run in a chain, abstract beans never; of two beans, the first one is read."""
    abstract = 'abstract="true"'
    settings, remarks = configured(
        tmp_path,
        f'<bean id="limits" class="a.CrawlLimitEnforcer" {abstract}><property name="maxTimeSeconds" value="5"/></bean>',
        '<bean id="limiter" parent="limits"><property name="maxDocumentsDownload" value="7"/></bean>',
        '<bean id="other" class="a.CrawlLimitEnforcer"><property name="maxTimeSeconds" value="6"/></bean>',
        '<bean id="warc" class="a.WARCWriterProcessor"/>',
        '<bean id="quotas" class="a.QuotaEnforcer"><property name="hostMaxAllKb" value="5"/></bean>',
        '<bean class="a.Unknown"><property name="inner"><bean class="a.CrawlController">',
        '<property name="maxToeThreads" value="3"/></bean></property></bean>',
        f'<bean id="controller" class="a.CrawlController" {abstract}><property name="maxToeThreads" value="4"/></bean>',
        CHAIN.format("Fetch", '<ref bean="quotas"/><bean class="a.FetchHTTP"/>'),
    )
    assert settings["limits"] == {"max_uris": 7, "max_time": "5s"}
    assert settings["output"]["warc"] is False
    assert settings["frontier"]["quotas"] == {"host": {"bytes": "5KiB"}}
    assert settings["fetch"].keys() == {"timeout", "first_byte_timeout", "max_body", "user_agent", "verify_tls"}
    assert remarks[2:] == [
        "5: other (CrawlLimitEnforcer): there is a bean of this class before it, limiter, which is read",
        "6: warc (WARCWriterProcessor): no chain has it, so that Heritrix does not run it",
        "8: Unknown: no counterpart; left out",
        "10: controller: it is abstract, and no bean extends it; left out",
    ]


def test_the_delays_of_a_sheet_are_compared_with_those_in_force(tmp_path: Path) -> None:
    entry = '<entry key="disposition.minDelayMs" value="90000"/>'
    settings, remarks = configured(
        tmp_path,
        '<bean id="disposition" class="a.DispositionProcessor"><property name="maxDelayMs" value="40000"/></bean>',
        f'<bean id="slow" class="a.Sheet"><property name="map"><map>{entry}</map></property></bean>',
    )
    assert settings["sheets"] == {"slow": {"politeness.min_delay": "40s", "politeness.max_delay": "40s"}}
    assert "4: slow: minDelayMs is longer than maxDelayMs, which wins in Heritrix, too" in remarks


def test_a_property_of_another_class_names_that_class(tmp_path: Path) -> None:
    own = '<property name="queueAssignmentPolicy"><bean class="a.SurtAuthorityQueueAssignmentPolicy"/></property>'
    settings, remarks = configured(
        tmp_path,
        f'<bean class="a.BdbFrontier" id="own">{own}<property name="minDelayMs" value="5"/>',
        '<property name="odd" value="1"/></bean>',
        '<bean class="a.FrontierPreparer" id="preparer"><property name="uriUniqFilter" ref="filter"/></bean>',
        '<bean class="a.BdbUriUniqFilter" id="filter"/>',
        frontier="",
    )
    assert [remark for remark in remarks if "own." in remark or "preparer." in remark] == [
        "3: own.queueAssignmentPolicy: it is a property of the class FrontierPreparer; left out",
        "3: own.minDelayMs=5: it is a property of the class DispositionProcessor; left out",
        "4: own.odd=1: no counterpart; left out",
        "5: preparer.uriUniqFilter=filter: it is a property of the class BdbFrontier; left out",
    ]
    assert "politeness" not in settings["frontier"]


def test_a_reference_to_a_bean_that_is_not_there_is_remarked_wherever_it_is(tmp_path: Path) -> None:
    _, remarks = configured(
        tmp_path,
        '<bean class="a.FetchHTTP" id="fetch"/>',
        CHAIN.format("Fetch", '<ref bean="fetch"/><ref bean="nothere"/>'),
        '<bean class="a.FrontierPreparer" id="preparer"><property name="uriPrecedencePolicy" ref="gone"/></bean>',
        '<bean class="a.SheetOverlaysManager"><property name="odd"><map><entry key="a" value-ref="lost"/></map>',
        "</property></bean>",
    )
    assert [remark for remark in remarks if "no such bean" in remark] == [
        "4: ref nothere: there is no such bean in the file",
        "5: ref gone: there is no such bean in the file",
        "6: ref lost: there is no such bean in the file",
    ]


def test_two_beans_of_one_id_are_refused(tmp_path: Path) -> None:
    source = job(tmp_path, '<bean id="frontier" class="a.BdbFrontier"/>')
    with pytest.raises(FrontierError, match=r':3: there is a bean "frontier" in line 2, too; Spring takes only one'):
        migrate(source, "crawl")


def test_placeholders_imports_parents_and_names(tmp_path: Path) -> None:
    """What Spring puts together is read as it would be; on what is not in the job, there are remarks."""
    source = job(
        tmp_path,
        '<import resource="limits.cxml"/><import resource="classpath:more.cxml"/><import resource="../up.cxml"/>',
        '<alias name="limiter" alias="budget"/><beans><bean name="one,two" class="a.CrawlController"',
        ' p:maxToeThreads="${threads}" xmlns:p="http://www.springframework.org/schema/p"/></beans>',
        '<bean class="org.springframework.context.support.PropertySourcesPlaceholderConfigurer">',
        '<property name="properties"><value>threads=9\njob=${name}-crawl\nname=local</value></property>',
        '<property name="location" value="file:job.properties"/></bean>',
        '<bean class="a.CrawlMetadata"><property name="jobName" value="${job}"/>',
        '<property name="operator" value="${nobody}"/><property name="description" value="${none:a text}"/>',
        '<property name="robotsPolicyName" value="#{policies.best}"/></bean>',
        '<util:list id="tiers" xmlns:util="http://www.springframework.org/schema/util"><ref bean="spec"/></util:list>',
        '<bean id="scope" class="a.DecideRuleSequence"><property name="rules" ref="tiers"/></bean>',
        '<bean id="spec" class="a.TooManyHopsDecideRule" parent="hops"/>',
        '<bean id="hops" abstract="true"><property name="maxHops" value="4"/></bean>',
        '<bean class="a.PropertyOverrideConfigurer"><property name="location" value="gone.properties"/>',
        '<property name="properties"><value>budget.maxDocumentsDownload=70\nhops.maxHops=5</value></property></bean>',
    )
    (source / "job.properties").write_text("name = named\n")
    (source / "limits.cxml").write_text(
        HEAD + '<bean id="limiter" class="a.CrawlLimitEnforcer">\n<property name="zzz" value="1"/></bean></beans>'
    )
    settings, _ = migrated(source, tmp_path / "out")
    assert (settings.crawl, settings.output.warc_description) == ("named-crawl", "a text")
    assert (settings.output.warc_operator, settings.fetch.robots) == (None, True)
    assert (settings.fetch.concurrency, settings.limits.max_uris) == (9, 70)
    assert [rule.rule for rule in settings.scope.rules] == ["hops:>5"]
    assert [remark.text for remark in migrate(source, "crawl").remarks if "zzz" in remark.what or remark.line > 2] == [
        "3: import of classpath:more.cxml: only files beside the configuration are read; left out",
        "3: import of ../up.cxml: only files beside the configuration are read; left out",
        "11: metadata.operatorContactUrl: it is no URL; write a page of yours into fetch.user_agent",
        "12: CrawlMetadata.operator=${nobody}: ${nobody} has no value in the file; left out",
        "13: CrawlMetadata.robotsPolicyName=#{policies.best}: expressions are not computed; left out",
        "18: the properties of gone.properties: No such file or directory",
        "limits.cxml:2: limiter.zzz=1: no counterpart; left out",
    ]


def test_a_rule_of_which_a_value_is_not_known_is_left_out(tmp_path: Path) -> None:
    """Without it, the rule would mean something else."""
    settings, remarks = configured(
        tmp_path,
        '<bean class="a.PropertyPlaceholderConfigurer"><property name="properties"><value>',
        "scope.rules[1].maxHops=7</value></property></bean>",
        '<bean id="scope" class="a.DecideRuleSequence"><property name="rules"><list>',
        '<bean class="a.NotMatchesRegexDecideRule"><property name="regex" value="${pattern}"/></bean>',
        '<bean class="a.TooManyHopsDecideRule"/></list></property></bean>',
        '<bean class="a.RulesCanonicalizationPolicy"><property name="rules"><list><bean class="a.RegexRule">',
        '<property name="regex" value="(.*)b"/><property name="format" value="${f}"/></bean></list></property></bean>',
        '<bean id="o" class="a.PropertyOverrideConfigurer"><property name="properties"><value>',
        "scope.rules[1].maxHops=7\nscope.rules[2].maxHops=8\nscope.rules[x]=1</value></property></bean>",
    )
    assert settings["scope"]["rules"] == [{"reject": "hops:>7"}]
    assert settings["frontier"]["canonicalization_policy"] == {"rules": []}
    assert [remark for remark in remarks if not remark.startswith("1:")] == [
        "6: NotMatchesRegexDecideRule: the value of a property is not known; left out",
        "8: RegexRule: the value of a property is not known; left out",
        "12: scope.rules[2].maxHops: there is no such bean or property in the file",
        "13: scope.rules[x]: there is no such bean or property in the file",
    ]


VALUES = [
    "-1", "0", "1", "-5", "255", "65536", "99999999999999999999", "0.5", "-2.5", "1e400", "true", "false", "", "many",
    "a b\nc", "\u00e9", "%TAG", "- x", "'", '"', "#", "${x}", "*", "\u2028", "a: b", "null", "\\p{L}+", "(?i).*x.*",
    "obey",
]  # fmt: skip
CLASSES = {**PLAIN, "QuotaEnforcer": QUOTAS, "HostnameQueueAssignmentPolicy": ASSIGNMENT_OPTIONS} | {
    "BaseQueuePrecedencePolicy": ("basePrecedence",), "SuccessCountsQueuePrecedencePolicy": ("incrementCounts",),
    "RegexRule": ("regex", "format"), "MatchesRegexDecideRule": ("regex", "decision"),
    "MatchesListRegexDecideRule": ("regexList",), "CrawlMetadata": ("userAgentTemplate", "operatorContactUrl"),
}  # fmt: skip


@given(data())
@few(20)
def test_every_file_written_is_valid(drawn: DataObject) -> None:
    """Whatever values the properties have: those that are not valid here are left out, with a remark."""

    def bean(name: str, more: str = "") -> str:
        known = sorted({*CLASSES[name], *PLAIN.get(name, ())})
        given = drawn.draw(dictionaries(sampled_from(known), sampled_from(VALUES), max_size=6))
        values = "".join(
            f"<property name='{key}'><value>{escape(text)}</value></property>" for key, text in given.items()
        )
        return f'<bean id="{name}" class="a.{name}">{values}{more}</bean>'

    frontier = bean("BdbFrontier", f'<property name="queuePrecedencePolicy" ref="{drawn.draw(sampled_from(RANKS))}"/>')
    names = [name for name in CLASSES if name != "BdbFrontier"]
    rules = {"scope": ("DecideRuleSequence", "Rule"), "same": ("RulesCanonicalizationPolicy", "RegexRule")}
    sequences = [
        f'<bean id="{name}" class="a.{kind}"><property name="rules"><list>'
        + "".join(f'<ref bean="{each}"/>' for each in names if each.endswith(end))
        + "</list></property></bean>"
        for name, (kind, end) in rules.items()
    ]
    sheet = "".join(
        f'<entry key="{name}.{key}" value="{escape(drawn.draw(sampled_from(VALUES)), {chr(34): "&quot;"})}"/>'
        for name in CLASSES
        for key in CLASSES[name]
        if drawn.draw(integers(0, 9)) == 0
    )
    label = drawn.draw(sampled_from(["gentle", "no name", "\u00e9"]))
    sheets = [
        f'<bean id="{label}" class="a.Sheet"><property name="map"><map>{sheet}</map></property></bean>',
        '<bean class="a.SurtPrefixesSheetAssociation"><property name="targetSheetNames"><list>'
        f'<value>{label}</value></list></property><property name="surtPrefixes"><list>'
        f"<value>{escape(drawn.draw(sampled_from(['http://(org,', 'org', *VALUES])))}</value></list></property></bean>",
    ]
    with TemporaryDirectory() as folder:
        beans = [HEAD, frontier, *map(bean, names), *sequences, *sheets, "</beans>"]
        (Path(folder) / CONFIGURATION).write_text("\n".join(beans), encoding="utf-8")
        migrated(Path(folder), Path(folder))


RANKS = ("BaseQueuePrecedencePolicy", "SuccessCountsQueuePrecedencePolicy")


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


@pytest.mark.parametrize(
    ("bean", "policy"),
    [
        ('"x.CostUriPrecedencePolicy"', "cost"),
        ('"x.BaseUriPrecedencePolicy"', {"base": {"base": 1}}),
        ('"x.HopsUriPrecedencePolicy" p:basePrecedence="4"', {"hops": {"base": 4, "navlinks_only": True}}),
        ('"x.HopsUriPrecedencePolicy" p:navlinksOnly="false"', {"hops": {"base": 1, "navlinks_only": False}}),
        ('"x.OwnUriPrecedencePolicy"', "cost"),
        ('"x.PreloadedUriPrecedencePolicy" p:basePrecedence="7"', {"base": {"base": 1}}),
    ],
)
def test_the_precedence_policy_of_uris(tmp_path: Path, bean: str, policy: object) -> None:
    prop = f'<property name="uriPrecedencePolicy"><bean class={bean}/></property>'
    source = job(tmp_path, f'<bean id="p" class="org.archive.crawler.prefetch.FrontierPreparer">{prop}</bean>')
    settings, remarks = migrated(source, tmp_path / "out")[:2]
    assert settings.frontier.uri_precedence_policy == policy
    assert any("UriPrecedencePolicy" in remark for remark in remarks.values()) is ("Own" in bean or "Preloaded" in bean)


def test_the_file_of_preloaded_precedences_is_to_be_named(tmp_path: Path) -> None:
    default = '<property name="defaultUriPrecedencePolicy"><bean class="x.HopsUriPrecedencePolicy"/></property>'
    policy = f'<bean class="x.PreloadedUriPrecedencePolicy">{default}</bean>'
    prop = f'<property name="uriPrecedencePolicy">{policy}</property>'
    source = job(tmp_path, f'<bean id="p" class="org.archive.crawler.prefetch.FrontierPreparer">{prop}</bean>')
    settings, _ = migrated(source, tmp_path / "out")
    assert settings.frontier.uri_precedence_policy == {"hops": {"base": 1, "navlinks_only": True}}
    told = [remark.why for remark in migrate(source, "crawl").remarks if remark.what.startswith("Preloaded")]
    assert len(told) == 1
    assert "{preloaded: {file: FILE, base: 1, default: {hops: {base: 1, navlinks_only: true}}}}" in told[0]


def test_the_precedence_of_the_best_uri(tmp_path: Path) -> None:
    policy = '<bean class="x.HighestUriQueuePrecedencePolicy" p:basePrecedence="5"/>'
    source = job(tmp_path)
    path = source / CONFIGURATION
    prop = f'<property name="queuePrecedencePolicy">{policy}</property>'
    path.write_text(path.read_text().replace(FRONTIER, FRONTIER.replace("/>", f">{prop}</bean>")))
    settings, remarks = migrated(source, tmp_path / "out")[:2]
    assert (settings.frontier.precedence_policy, settings.frontier.precedence) == ("highest-uri", 5)
    assert not any("Precedence" in remark for remark in remarks.values())


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


def test_a_disk_space_monitor_pauses_here_too(tmp_path: Path) -> None:
    monitor = '<bean class="org.archive.crawler.monitor.DiskSpaceMonitor">{}</bean>'
    threshold = '<property name="pauseThresholdMiB" value="500"/><property name="monitorConfigPaths" value="true"/>'
    settings, remarks = migrated(job(tmp_path, monitor.format(threshold)), tmp_path)
    assert settings.frontier.guards.min_free == 500 << 20
    assert [what for what in remarks.values() if "Disk" in what] == ["DiskSpaceMonitor.monitorConfigPaths=true"]
    (tmp_path / "unset").mkdir()
    settings, _ = migrated(job(tmp_path / "unset", monitor.format("")), tmp_path / "unset")
    assert settings.frontier.guards.min_free == 8192 << 20, "Heritrix's default"
