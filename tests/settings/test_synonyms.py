"""What other crawlers call our settings: each word leads to a setting that there is."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import Settings, synonyms
from budgetfrontier.settings.field import all_settings
from budgetfrontier.settings.overrides import validate_override
from budgetfrontier.tools.cli.command_list import GROUPS
from tests.settings.files import problems

SECTIONS = {".".join(row.name.split(".")[:depth]) for row in all_settings(Settings) for depth in range(1, 4)}
NAMES = {row.name for row in all_settings(Settings)} | SECTIONS


def test_each_word_leads_to_a_setting_and_none_to_two() -> None:
    assert {*synonyms.targets().values(), *synonyms.IN_PLACE.values()} <= NAMES
    assert not synonyms.IN_PLACE.keys() & NAMES
    assert not synonyms.targets().keys() & synonyms.elsewhere().keys()
    words = [word for words in synonyms._WORDS.values() for word in words.split()]
    assert len(words) == len(set(map(synonyms.folded, words)))


def test_each_word_for_a_command_leads_to_one_and_is_none() -> None:
    names = {name for group in GROUPS.values() for name in group}
    words = [word for words in synonyms._COMMANDS.values() for word in words.split()]
    assert {command.partition(" ")[0] for command in synonyms._COMMANDS} <= {*names, "--help", "--version"}
    assert len(words) == len(set(words)) and not names & set(words)
    assert (synonyms.command("Status"), synonyms.command("nothing")) == ("report", "")


def test_no_word_is_the_name_of_another_setting() -> None:
    """But `delay`, which only the retries have, and which means the politeness delay to everybody else; and the total
    budget, which is also one of a group."""
    last = {synonyms.folded(row.name.rpartition(".")[2]) for row in all_settings(Settings)}
    assert last & (synonyms.targets().keys() | synonyms.elsewhere().keys()) == {"delay", "totalbudget"}


@pytest.mark.parametrize(
    ("word", "setting"),
    [
        ("DOWNLOAD_DELAY", '"min_delay", under frontier.politeness'),
        ("CONCURRENT_REQUESTS_PER_DOMAIN", '"per_queue_concurrency", under frontier.politeness'),
        ("DEPTH_LIMIT", '"max_hops", under scope'),
        ("ALLOWED_DOMAINS", '"accept", under scope'),
        ("ROBOTSTXT_OBEY", '"robots", under fetch'),
        ("USER_AGENT", '"user_agent", under fetch'),
        ("ITEM_PIPELINES", '"sinks", under output'),
        ("minDelayMs", '"min_delay", under frontier.politeness'),
        ("delayFactor", '"delay_factor", under frontier.politeness'),
        ("maxToeThreads", '"concurrency", under fetch'),
        ("fetcher.server.delay", '"min_delay", under frontier.politeness'),
        ("http.agent.name", '"user_agent", under fetch'),
        ("--wait", '"min_delay", under frontier.politeness'),
        ("level", '"max_hops", under scope'),
        ("scopeType", '"accept", under scope'),
        ("depth", '"max_hops", under scope'),
        ("limit", '"max_uris", under limits'),
        ("sink", '"sinks", under output'),
        ("headers", '"requests", under fetch'),
        ("start_urls", '"seeds"'),
        ("max_seconds", '"max_time", under limits'),
        ("max_minutes", '"max_time", under limits'),
        ("max_hours", '"max_time", under limits'),
        ("max_mb", '"max_bytes", under limits'),
        ("max_fetches", '"max_uris", under limits'),
        ("codes", '"statuses", under frontier.retry'),
    ],
)
def test_the_words_of_others_lead_to_ours(word: str, setting: str) -> None:
    [problem] = problems({word: 1})
    assert f"did you mean {setting}?" in problem or problem.endswith("belongs under fetch:")


def test_the_section_is_left_out_where_it_is_the_same() -> None:
    [problem] = problems({"frontier": {"politeness": {"delay": 2}}})
    assert problem == 'frontier.politeness: unknown key "delay"; did you mean "min_delay"?'
    [problem] = problems({"frontier": {"delay": 2}})
    assert problem == 'frontier: unknown key "delay"; did you mean "min_delay", under frontier.politeness?'
    [problem] = problems({"frontier": {"profile": "capped"}})
    assert problem == 'frontier: "profile" belongs at the top level'
    [problem] = problems({"limits": {"max_pages": 1}})
    assert problem == 'limits: unknown key "max_pages"; did you mean "max_uris"?'


@pytest.mark.parametrize(
    ("data", "meant"),
    [
        ({"limits": {"pages": 1}}, "max_uris"),
        ({"output": {"max_size": 1}}, "warc_size"),
        ({"frontier": {"politeness": {"factor": 1}}}, "delay_factor"),
        ({"frontier": {"retry": {"codes": [500]}}}, "statuses"),
    ],
)
def test_a_word_may_mean_another_setting_in_its_section(data: dict[str, Any], meant: str) -> None:
    [problem] = problems(data)
    assert problem.endswith(f'; did you mean "{meant}"?')


def test_what_is_no_setting_is_told() -> None:
    [problem] = problems({"output": {"dir": "out"}})
    assert "`budgetfrontier crawl CONFIG --job DIR` names it" in problem


def test_what_resembles_nothing_is_answered_with_what_there_is() -> None:
    [problem] = problems({"links": {"follow": 1}})
    assert problem.startswith('links: unknown key "follow"; known here: ')


def test_overrides_and_adjustments_know_the_words_too() -> None:
    with pytest.raises(SettingsError, match=r'unknown setting "delay"; did you mean "politeness\.min_delay"'):
        validate_override("*", {"delay": 2})
    with pytest.raises(SettingsError, match=r'did you mean "politeness\.delay_factor"'):
        validate_override("*", {"politeness": {"factor": 2}})
