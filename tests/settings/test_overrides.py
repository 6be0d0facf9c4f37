"""Which settings are in force for which URI, and that finding them stays cheap and bounded."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import Settings
from budgetfrontier.settings import overrides as module
from budgetfrontier.settings.field import all_settings
from budgetfrontier.settings.names import OTHER_SECTIONS, is_of_groups, per_uri
from budgetfrontier.settings.overrides import Effective, Override, compacted, parse_match, validate_override, value_in
from budgetfrontier.settings.schema import FrontierSettings
from tests.support import growing


def effective(*rules: tuple[str, dict[str, Any]]) -> Effective:
    return Effective(FrontierSettings(), [validate_override(match, values) for match, values in rules])


def test_base_holds_the_global_settings_flat() -> None:
    found = Effective(FrontierSettings(retire_when="reached", order="lifo", precedence=7))
    assert found.trivial
    assert found.for_uri("http://a.test/", "a.test") is found.base
    assert found.base.reached and found.base.lifo and found.base.precedence == 7
    assert (found.base.min_delay, found.base.retry_delay, found.base.retry_uri) == (3.0, 900.0, False)


def test_every_setting_per_uri_arrives_in_the_flat_form() -> None:
    other: dict[str, Any] = {"retire_when": "reached", "cost_policy": "zero", "order": "lifo", "retry.scope": "uri"}
    other |= {"retry.statuses": [500], "guards.windows": ["mon 08:00-09:00 UTC"]}
    other |= {f"quotas.{kind}": {"successes": 7} for kind in ("host", "queue", "label")}
    other |= {"quotas.force_retire": False, "uri_precedence_policy": "base"}
    other |= {name: 7 for name in per_uri() if name not in other and not is_of_groups(name)}
    base = Effective(FrontierSettings()).base
    adjustment = validate_override("*", other)
    changed = Effective(FrontierSettings(), (), [adjustment]).for_uri("http://a.test/", "a.test")
    for field in base.__struct_fields__:
        assert getattr(base, field) != getattr(changed, field), field


def test_all_that_match_apply_in_order_and_later_wins_per_setting() -> None:
    found = effective(
        ("domain:example.org", {"queue_total_budget": 100, "precedence": 1}),
        ("*", {"queue_total_budget": 50}),
        ("host:www.example.org", {"precedence": 2}),
        ("queue:other.test", {"politeness": {"min_delay": "1s"}}),
    )
    www = found.for_uri("http://www.example.org/", "www.example.org")
    assert (www.queue_total_budget, www.precedence, www.min_delay) == (50, 2, 3.0)
    plain = found.for_uri("http://example.org/", "other.test")
    assert (plain.queue_total_budget, plain.precedence, plain.min_delay) == (50, 1, 1.0)


@pytest.mark.parametrize(
    ("rules", "uniform"),
    [
        ([], True),
        ([("*", {"precedence": 1})], True),
        ([("host:a.test", {"precedence": 1})], False),
        ([("host:a.test", {"precedence": 1}), ("*", {"precedence": 2})], True),
        ([("*", {"precedence": 2}), ("host:a.test", {"precedence": 1})], False),
        ([("*", {"precedence": 2}), ("host:a.test", {"precedence": 2})], True),
        ([("*", {"precedence": 2}), ("*", {"queue_total_budget": 1})], True),
    ],
)
def test_a_setting_is_uniform_as_far_as_overrides_in_force_say(
    rules: list[tuple[str, dict[str, Any]]], uniform: bool
) -> None:
    assert effective(*rules).is_uniform("precedence") is uniform


def test_paths_are_told_apart_where_an_override_looks_at_them() -> None:
    found = effective(("regex:/calendar/", {"cost_policy": "wag"}), ("domain:a.test", {"precedence": 1}))
    for _ in range(2):
        assert found.for_uri("http://a.test/calendar/1", "a.test").cost_policy == "wag"
        assert found.for_uri("http://a.test/page", "a.test").cost_policy == "unit"
        assert found.for_uri("http://a.test/page", "a.test").precedence == 1
    assert found.for_uri("http://a.test/x", "a.test") is found.for_uri("http://a.test/y", "a.test")


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHED", 10)
    found = effective(*((f"host:a{n}.test", {"precedence": n}) for n in range(100)))
    with growing() as grown:
        for n in range(5000):
            assert found.for_uri(f"http://a{n}.test/", f"a{n}.test").precedence == (n if n < 100 else 3)
    assert grown() < 50_000
    first = found.for_uri("http://a0.test/", "a0.test")
    assert found.for_uri("http://a0.test/", "a0.test") is first
    for n in range(1, 11):
        found.for_uri(f"http://a{n}.test/", f"a{n}.test")
    assert found.for_uri("http://a0.test/", "a0.test") is not first


def test_what_is_remembered_is_bounded_with_many_combinations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHED", 10)
    kinds = [("host:*0.test", {"precedence": 7}), ("surt:(test,a10,)/x", {"queue_total_budget": 5})]
    found = effective(*((f"regex:p{n}[.]", {"max_queue_size": n}) for n in range(40)), *kinds)
    for _ in range(2):
        with growing() as grown:
            for n in range(2000):
                host, first, second = f"a{n % 30}.test", n % 40, n % 7
                settings = found.for_uri(f"http://{host}/x/p{first}./p{second}.", host)
                assert settings.max_queue_size == max(first, second)
                assert settings.precedence == (3 if n % 10 else 7)
                assert settings.queue_total_budget == (5 if n % 30 == 10 else -1)
        assert grown() < 100_000


def test_very_many_overrides_are_as_large_as_their_number() -> None:
    number = 20_000
    overrides = [validate_override(f"domain:a{n}.test", {"precedence": n % 9}) for n in range(number)]
    tracemalloc.start()
    found = Effective(FrontierSettings(), overrides)
    assert found.for_uri("http://x.a8.test/", "x.a8.test").precedence == 8
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size < number * 1000


def test_one_override_for_everything_after_another_is_remembered_once() -> None:
    found = effective(*(("*", {"precedence": n % 9}) for n in range(1001)))
    first = found.for_uri("http://a.test/", "a.test")
    assert first.precedence == 1000 % 9
    with growing() as grown:
        for n in range(50):
            assert found.for_uri(f"http://a{n}.test/", f"a{n}.test") is first
    assert grown() < 50 * 1000


@pytest.mark.parametrize("size", [5000, 10**6])
def test_a_number_without_end_is_refused_in_few_words(size: int) -> None:
    for settings in {"precedence": 10**size}, {"politeness": 10**size}, {"cost_policy": 10**size}:
        with pytest.raises(SettingsError) as caught:
            validate_override("*", settings)
        assert len(str(caught.value)) < 200


def test_very_many_unknown_settings_are_refused_soon() -> None:
    with pytest.raises(SettingsError) as caught:
        validate_override("*", {f"key{n}": 1 for n in range(50_000)})
    assert len(caught.value.problems) == 101


HOSTS = st.sampled_from(["a.test", "b.a.test", "a.org", "127.0.0.1", "x.y.a.org", "u@a.test", "a.test:81", "a)b.test"])
HOSTS |= st.sampled_from(["a,b.test", "b.a,b.test", "a.test.", "ab.test", "b.ab.test:81", "[::1]", "test", "a.0.0.1"])
MATCHES = st.sampled_from(["*", "domain:a.test", "domain:org", "host:*.test", "host:a.org", "queue:q?", "queue:q1"])
MATCHES |= st.sampled_from(["regex:/p", "regex:p$", "regex:@"])
MATCHES |= st.sampled_from(["surt:(test,a,", "surt:(test,a,)/p", "surt:(test,a,)/pp", "surt:(test,a,:81)/p"])
MATCHES |= st.sampled_from(
    ["surt:(test,", "surt:(test,a", "surt:(test,a,b", "surt:(test,a,b,", "surt:(te", "surt:http://("]
)
MATCHES |= st.sampled_from(
    ["surt:(,test,a", "surt:(127.", "surt:(1,0", "surt:([::1]", "domain:test", "queue:*1", "host:b.*"]
)
MATCHES |= st.sampled_from(["surt:http://(org,a,)/", "surt:https://(org,a,)/p", "surt:(127.0.0.1)/?"])
MATCHES |= st.sampled_from(["surt:(test,a)b,)/p", "surt:(test,a)b", "surt:(test,a)", "surt:(test,a,)p"])
MATCHES |= st.sampled_from(["label:one", "label:two"])
PATHS = st.sampled_from(["/", "/p", "/pp/q", "/?p"])


@given(
    st.lists(st.tuples(MATCHES, st.sampled_from(["precedence", "max_queue_size"]), st.integers(0, 9)), max_size=6),
    st.lists(st.tuples(HOSTS, PATHS, st.sampled_from(["q1", "q2"]), st.sampled_from([None, "one", ""])), max_size=6),
)
def test_tables_and_memory_agree_with_testing_one_after_the_other(
    rules: list[tuple[str, str, int]], uris: list[tuple[str, str, str, str | None]]
) -> None:
    found = effective(*((match, {name: value}) for match, name, value in rules))
    for host, path, queue, label in [*uris, *uris]:
        href = f"http://{host}{path}"
        expected = {"precedence": 3, "max_queue_size": 0}
        for match, name, value in rules:
            if parse_match(match).matches(href, queue, label):
                expected[name] = value
        settings = found.for_uri(href, queue, label)
        assert found.for_one(href, queue, label) == settings
        assert {name: getattr(settings, name) for name in expected} == expected


def test_validate_override_reads_values() -> None:
    nested = validate_override("domain:a.test", {"politeness": {"min-delay": "500ms"}, "queue-precedence": 1})
    assert nested == Override(match="domain:a.test", set={"politeness.min_delay": 0.5, "precedence": 1})
    assert validate_override("domain:a.test", nested.set) == nested
    assert validate_override("domain:a.test", {"politeness.min_delay": "500ms", "precedence": 1}) == nested


def test_validate_override_reports_all_problems_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        validate_override("nothing", {"hold_queues": True, "min_delay": 1, "queue_total_budget": -2, "retry": 5})
    match, whole, leaf, value, retry = caught.value.problems
    assert match.startswith('"nothing" is not a match')
    assert whole.startswith('"hold_queues" applies to the whole frontier and cannot be set here; these can: ')
    assert leaf == 'unknown setting "min_delay"; did you mean "politeness.min_delay"?'
    assert value == "queue_total_budget: expected a whole number of at least -1, got -2"
    assert retry == "retry: expected a mapping of settings, got 5"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("label", 'unknown setting "label"; did you mean "quotas.label"?'),
        ("frontier.queue_total_budget", 'unknown setting "frontier.queue_total_budget"; did you mean "queue_total'),
        ("frontier.politeness.min_delay", 'unknown setting "frontier.politeness.min_delay"; did you mean "politeness.'),
        ("frontier.max_queued", '"frontier.max_queued" applies to the whole frontier and cannot be set here'),
        ("guards.min_free", '"guards.min_free" applies to the whole frontier and cannot be set here'),
        ("limits.max_uris", '"limits.max_uris" applies to the whole crawl and cannot be set here'),
        ("fetch.timeout", '"fetch.timeout" applies to the whole crawl and cannot be set here'),
        ("scope.max_hops", '"scope.max_hops" applies to the whole crawl and cannot be set here'),
        ("pause-on-finish", '"pause_on_finish" applies to the whole frontier and cannot be set here'),
    ],
)
def test_a_setting_that_cannot_be_set_is_named_as_it_was_given(name: str, said: str) -> None:
    """Both are other names, of a setting of seeds and of one of the whole frontier."""
    with pytest.raises(SettingsError) as caught:
        validate_override("*", {name: "x"})
    [problem] = caught.value.problems
    assert problem.startswith(said)


def test_all_sections_of_the_crawl_are_known_to_errors() -> None:
    sections = {name: type(getattr(Settings(), name)) for name in Settings.__struct_fields__}
    assert {name: kind for name, kind in sections.items() if issubclass(kind, msgspec.Struct)} == {
        **OTHER_SECTIONS, "frontier": FrontierSettings,
    }  # fmt: skip


def test_a_setting_given_twice_is_a_problem() -> None:
    with pytest.raises(SettingsError, match="a second time"):
        validate_override("*", {"politeness": {"min_delay": 1}, "politeness.min_delay": 2})


def test_every_setting_is_shown_as_it_is_written() -> None:
    shown = {row.name.removeprefix("frontier."): row.default for row in all_settings(Settings) if row.overridable}
    shown = {name: value for name, value in shown.items() if not is_of_groups(name)}
    base = Effective(FrontierSettings()).base
    assert {name: value_in(base, name) for name in shown} == shown


_settings_per_uri = st.sampled_from(
    [
        ("queue_total_budget", 5),
        ("queue_total_budget", -1),
        ("retire_when", "reached"),
        ("precedence", 1),
        ("cost_policy", "wag"),
        ("politeness.min_delay", 2.0),
        ("retry.delay", 7.0),
        ("retry.scope", "uri"),
        ("retry.status_delay", 7.0),
    ]
)
_adjustments = st.lists(
    st.builds(
        lambda match, chosen: Override(match=match, set=dict(chosen)),
        st.sampled_from(["*", "host:a.test", "domain:a.test", "host:*.test", "queue:q", "regex:/x", "surt:(test,a,"]),
        st.lists(_settings_per_uri, min_size=1, max_size=4),
    ),
    max_size=14,
)


@given(_adjustments)
def test_compacted_adjustments_say_the_same(adjustments: list[Override]) -> None:
    kept = compacted(adjustments)
    base = FrontierSettings()
    before, after = Effective(base, adjustments), Effective(base, kept)
    for url in "http://a.test/", "http://a.test/x", "https://b.a.test/", "http://b.test/x", "http://c.example/":
        for queue in "q", "a.test":
            assert after.for_uri(url, queue) == before.for_uri(url, queue)
    places = [next(i for i, one in enumerate(adjustments) if one is each) for each in kept]
    assert places == sorted(places)
    assert compacted(kept) == kept


def test_what_is_set_again_goes_and_what_is_not_stays() -> None:
    both = Override(match="*", set={"precedence": 1, "politeness.min_delay": 2.0})
    one = Override(match="*", set={"precedence": 2})
    other = Override(match="host:a.test", set={"precedence": 1, "politeness.min_delay": 2.0})
    rest = Override(match="*", set={"politeness.min_delay": 3.0})
    assert compacted([both, one, other]) == [both, one, other]
    assert compacted([one, both, other]) == [both, other]
    assert compacted([both, one, other, rest]) == [one, other, rest]
