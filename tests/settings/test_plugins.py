"""Policies by name: ours, Heritrix's, an installed package's, and one's own in five lines."""

from __future__ import annotations

import importlib.metadata
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import PolicyError
from budgetfrontier.settings import plugins
from budgetfrontier.settings.policies import (
    assignment,
    canonicalization,
    canonicalization_rules,
    cost,
    politeness,
    precedence,
    uri_precedence,
)

URI = CrawlUri("https://www.example.org/archive/a?b")

BUILT_IN: dict[str, dict[str, type]] = {
    "cost": {
        "zero": cost.ZeroCost,
        "unit": cost.UnitCost,
        "wag": cost.WagCost,
        "anti-calendar": cost.AntiCalendarCost,
        "additive": cost.AdditiveCost,
    },
    "assignment": {
        "hostname": assignment.Hostname,
        "surt-authority": assignment.SurtAuthority,
        "registered-domain": assignment.RegisteredDomain,
        "topmost-assigned-surt": assignment.TopmostAssignedSurt,
        "ip": assignment.Ip,
        "bucket": assignment.Bucket,
        "single": assignment.Single,
    },
    "precedence": {
        "base": precedence.Base,
        "success-counts": precedence.SuccessCounts,
        "highest-uri": precedence.HighestUri,
    },
    "uri_precedence": {
        "cost": uri_precedence.UriCost,
        "base": uri_precedence.UriBase,
        "hops": uri_precedence.UriHops,
        "preloaded": uri_precedence.UriPreloaded,
    },
    "politeness": {"standard": politeness.Politeness},
    "canonicalization": {"standard": canonicalization.Canonicalization, "rules": canonicalization_rules.HeritrixRules},
}
NEEDED = {"preloaded": {"file": "precedences.txt"}}
"""The options without which a policy cannot be."""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of somebody's own, importable as `own_policies`."""
    path = tmp_path / "own_policies.py"
    path.write_text(
        textwrap.dedent("""
            def cost(uri):
                return 5 if "/archive/" in uri.url else 1

            def weighted(uri, *, weight=2):
                return weight

            class Doubled:
                def __init__(self, *, base=1):
                    if base < 0:
                        raise ValueError("base is below 0")
                    self.base = base
                def __call__(self, uri):
                    return 2 * self.base

            doubled = Doubled(base=4)
            number = 7

            class Inert:
                pass

            def nothing():
                return 1

            async def slow(uri):
                return 1

            class Slow:
                async def __call__(self, uri):
                    return 1
        """),
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_policies", raising=False)
    return path


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, own: Path) -> None:
    """A package is installed that offers policies."""
    points = [
        importlib.metadata.EntryPoint("cost.theirs", "own_policies:Doubled", plugins.ENTRY_POINTS),
        importlib.metadata.EntryPoint("assignment.other", "own_policies:nothing", plugins.ENTRY_POINTS),
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: points * (group == plugins.ENTRY_POINTS))


def test_every_built_in_policy_is_found_by_its_name() -> None:
    assert set(BUILT_IN) == set(plugins.KINDS)
    for kind, policies in BUILT_IN.items():
        assert plugins.known(kind) == list(policies)
        for name, policy in policies.items():
            options = NEEDED.get(name, {})
            assert type(plugins.resolve(kind, {name: options})) is policy
            assert type(plugins.resolve(kind, {name.replace("-", "_"): options})) is policy


@pytest.mark.parametrize(
    ("kind", "name", "policy"),
    [
        ("cost", "ZeroCostAssignmentPolicy", cost.ZeroCost),
        ("cost", "org.archive.crawler.frontier.UnitCostAssignmentPolicy", cost.UnitCost),
        ("cost", "org.archive.crawler.frontier.WagCostAssignmentPolicy", cost.WagCost),
        ("cost", "AntiCalendarCostAssignmentPolicy", cost.AntiCalendarCost),
        ("assignment", "HostnameQueueAssignmentPolicy", assignment.Hostname),
        ("assignment", "org.archive.crawler.frontier.SurtAuthorityQueueAssignmentPolicy", assignment.SurtAuthority),
        ("assignment", "HostnameQueueAssignmentPolicyWithLimits", assignment.Hostname),
        ("assignment", "SurtAuthorityQueueAssignmentPolicyWithLimits", assignment.SurtAuthority),
        ("assignment", "TopmostAssignedSurtQueueAssignmentPolicy", assignment.TopmostAssignedSurt),
        ("assignment", "AssignmentLevelSurtQueueAssignmentPolicy", assignment.TopmostAssignedSurt),
        ("assignment", "org.archive.crawler.frontier.IPQueueAssignmentPolicy", assignment.Ip),
        ("assignment", "BucketQueueAssignmentPolicy", assignment.Bucket),
        ("precedence", "org.archive.crawler.frontier.precedence.BaseQueuePrecedencePolicy", precedence.Base),
        ("precedence", "SuccessCountsQueuePrecedencePolicy", precedence.SuccessCounts),
        ("politeness", "org.archive.crawler.postprocessor.DispositionProcessor", politeness.Politeness),
        (
            "canonicalization",
            "org.archive.modules.canonicalize.RulesCanonicalizationPolicy",
            canonicalization_rules.HeritrixRules,
        ),
    ],
)
def test_heritrix_s_class_names_mean_ours(kind: str, name: str, policy: type) -> None:
    assert type(plugins.resolve(kind, name)) is policy


@pytest.mark.parametrize(
    "spec",
    [
        {"additive": {"rules": [{"when": "depth", "add": 4}]}},
        {"policy": "additive", "rules": [{"when": "depth", "add": 4}]},
    ],
)
def test_options_are_given_in_two_ways(spec: dict[str, Any]) -> None:
    assert plugins.resolve("cost", spec)(URI) == 5


def test_options_may_be_empty_and_in_kebab_case() -> None:
    assert plugins.resolve("cost", {"wag": None})(URI) == 2
    assert plugins.resolve("cost", {"wag": {}})(URI) == 2
    keep_www = plugins.resolve("canonicalization", {"standard": {"strip-www": False}})
    assert keep_www("http://www.example.org/") == "http://www.example.org/"


def test_options_of_built_in_policies_may_have_heritrix_s_names() -> None:
    parallel = {"HostnameQueueAssignmentPolicy": {"parallelQueues": 2, "parallelQueuesRandomAssignment": True}}
    ours = {"hostname": {"parallel_queues": 2, "parallel_queues_random_assignment": True}}
    urls = [CrawlUri(f"http://a.test/{number}/") for number in range(30)]
    both = [plugins.resolve("assignment", spec) for spec in (parallel, ours)]
    assert [*map(both[0], urls)] == [*map(both[1], urls)]
    spec = {"SuccessCountsQueuePrecedencePolicy": {"incrementCounts": "5", "basePrecedence": 7}}
    assert plugins.resolve("precedence", spec)(URI, precedence=3) == 7
    hops = {"HopsUriPrecedencePolicy": {"navlinksOnly": False, "basePrecedence": 4}}
    assert plugins.resolve("uri_precedence", hops)(CrawlUri("http://a.test/", hops="LE")) == 6
    for twice in ({"parallelQueues": 2, "parallel-queues": 2}, {"wrongName": 1}):
        with pytest.raises(PolicyError, match=r"parallelQueues sets parallel_queues a second time|wrong_name"):
            plugins.resolve("assignment", {"hostname": twice})


def test_each_call_makes_a_policy_of_its_own() -> None:
    assert plugins.resolve("cost", "unit") is not plugins.resolve("cost", "unit")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("own_policies:cost", 5),
        ("own_policies:weighted", 2),
        ({"own_policies:weighted": {"weight": 9}}, 9),
        ({"policy": "own_policies:weighted", "weight": 9}, 9),
        ("own_policies:Doubled", 2),
        ({"own_policies:Doubled": {"base": 3}}, 6),
        ("own_policies:doubled", 8),
        ("own_policies:doubled.__call__", 8),
        ({"own_policies:doubled": {}}, 8),
    ],
)
@pytest.mark.usefixtures("own")
def test_a_policy_of_one_s_own_is_any_function_class_or_instance(spec: Any, expected: int) -> None:
    assert plugins.resolve("cost", spec)(URI) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("own_policies:cost", True),
        ({"own_policies:weighted": {"weight": 3}}, True),
        ({"policy": "own_policies:weighted", "weight": 3}, True),
        ("wag", False),
        ({"additive": {"rules": ["a:b"]}}, False),
        (["own_policies:cost"], False),
        (None, False),
    ],
)
def test_a_policy_of_one_s_own_is_told_from_those_by_name(spec: object, expected: bool) -> None:
    assert plugins.is_own(spec) is expected


@pytest.mark.usefixtures("installed")
def test_an_installed_package_offers_policies_by_kind() -> None:
    assert plugins.resolve("cost", "theirs")(URI) == 2
    assert plugins.resolve("cost", {"theirs": {"base": 5}})(URI) == 10
    assert plugins.known("cost") == [*BUILT_IN["cost"], "theirs"]
    with pytest.raises(PolicyError, match="theirs"):
        plugins.resolve("cost", "other")


def test_an_unknown_name_is_told_what_there_is_and_the_nearest() -> None:
    with pytest.raises(PolicyError) as caught:
        plugins.resolve("cost", "anti-calender")
    message = str(caught.value)
    assert "no cost policy 'anti-calender' (did you mean anti-calendar?)" in message
    for name in [*BUILT_IN["cost"], *cost.HERITRIX, "module:name"]:
        assert name in message


@pytest.mark.parametrize("name", ["", "nothing-like-it", "org.archive.crawler.frontier.NoSuchPolicy"])
def test_without_a_near_name_all_are_listed(name: str) -> None:
    with pytest.raises(PolicyError, match="there are hostname, surt-authority, registered-domain, topmost"):
        plugins.resolve("assignment", name)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (None, "expected a name"),
        (7, "expected a name"),
        ({}, "expected a name"),
        ({"unit": {}, "zero": {}}, "expected a name"),
        ({"additive": 1}, "expected a name"),
        ({7: {}}, "expected a name"),
        ({"unit": {"weight": 1}}, "unexpected keyword argument 'weight'; its options are: none"),
        ({"additive": {"rule": []}}, "'rule'; its options are: rules"),
        ({"additive": {"rules": [{"when": "depth"}]}}, "rule 1: depth says no weight"),
        ({"own_policies:weighted": {"wait": 1}}, "'wait'; its options are: weight"),
        ({"own_policies:Doubled": {"base": -1}}, "base is below 0"),
        ({"own_policies:Doubled": {"base": "x"}}, "own_policies:Doubled: '<' not supported"),
        ("own_policies:number", "neither a function nor a class"),
        ("own_policies:Inert", "neither a function nor a class"),
        ({"own_policies:number": {"a": 1}}, "neither a function nor a class"),
        ("own_policies:nothing", r"must take \(uri\): too many positional"),
        ("own_policies:slow", "is async; policies are called, not awaited"),
        ("own_policies:Slow", "is async; policies are called, not awaited"),
        ("own_policies:missing", "cannot be imported: AttributeError"),
        ("no_such_module:cost", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        (":", "cannot be imported"),
        ("own_policies:", "cannot be imported"),
        ("\ud800:\x00", "cannot be imported"),
    ],
)
@pytest.mark.usefixtures("own")
def test_a_spec_that_is_wrong_is_a_policy_error_that_says_why(spec: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        plugins.resolve("cost", spec)


def test_a_module_that_ends_the_process_when_imported_is_a_policy_error(own: Path) -> None:
    own.with_name("own_program.py").write_text("import sys; sys.exit('usage: own_program FILE')")
    with pytest.raises(PolicyError, match="cannot be imported: SystemExit: usage"):
        plugins.resolve("cost", "own_program:cost")


def test_a_module_that_fails_is_a_policy_error_with_its_cause(own: Path) -> None:
    own.write_text("1 / 0", encoding="utf-8")
    with pytest.raises(PolicyError, match="ZeroDivisionError") as caught:
        plugins.resolve("cost", "own_policies:cost")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.usefixtures("own")
def test_a_policy_must_take_what_its_kind_is_called_with() -> None:
    with pytest.raises(PolicyError, match=r"must take \(uri, precedence=\.\.\.\)"):
        plugins.resolve("precedence", "own_policies:cost")
    with pytest.raises(PolicyError, match=r"\(settings, fetch_seconds=\.\.\., crawl_delay=\.\.\., random=\.\.\.\)"):
        plugins.resolve("politeness", "own_policies:cost")


def test_what_does_not_tell_its_signature_is_taken_as_it_is() -> None:
    assert plugins.resolve("cost", "builtins:max") is max


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(PolicyError, match="there are cost, assignment, precedence, uri_precedence, politeness"):
        plugins.resolve("costs", "unit")


@pytest.mark.parametrize("kind", plugins.KINDS)
def test_built_in_policies_need_no_look_at_their_signatures(kind: str) -> None:
    arguments, options = plugins._CALLS[kind]
    for name in plugins._module(kind).BUILTIN:
        policy = plugins.resolve(kind, {name: NEEDED.get(name, {})})
        assert plugins.objection(policy, options, *arguments) is None
