"""Budgets and sheets of seeds: they are overrides and associations of the queues of the seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import InvalidUrl, SettingsError
from budgetfrontier.settings import policy_factory, policy_results, url_lists
from budgetfrontier.settings.checks import BY_ADDRESS, is_named, sheet_objection
from budgetfrontier.settings.matching import LONGEST, queue_match, queues_match
from budgetfrontier.settings.problems import MOST_PROBLEMS
from budgetfrontier.settings.schema import Association, FrontierSettings, Override, Seed
from budgetfrontier.settings.settings import Settings
from budgetfrontier.settings.url_lists import ListedUrl
from budgetfrontier.settings.values import brief

BUDGET = "queue_total_budget"
"""The setting that the budget of a seed is."""
PARALLEL = (
    "with parallel_queues, the budget or sheet of a seed is for one of its host's queues, that of the seed itself; an"
    " override or association with `host:` is for each of them"
)
MOST_IN_PATTERN = LONGEST - 100


def queue_matches(keys: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield patterns that together match the queues with these keys, each with those of it."""
    part, size = list[str](), 0
    for key in keys:
        longest = 2 * len(key) + 4  # in JSON, quotes are escaped
        if part and size + longest > MOST_IN_PATTERN:
            yield _queue_match(part), part
            part, size = [], 0
        part.append(key)
        size += longest
    if part:
        yield _queue_match(part), part


def _queue_match(keys: list[str]) -> str:
    return queue_match(keys[0]) if len(keys) == 1 else queues_match(keys)


def queue_key(seed: Seed, assign: Callable[[CrawlUri], object], frontier: FrontierSettings) -> str:
    """Return the key of the queue of a seed with a URL. Raises InvalidUrl and PolicyError."""
    if seed.queue is not None:
        return seed.queue
    uri = CrawlUri(uris.parse(seed.url or ""), source=seed.source)
    return policy_results.queue_key(assign, frontier.queue_assignment_policy, uri)


def with_seed_settings(settings: Settings, suffix_list: str | None = None) -> Settings:
    """Return settings in which the budgets and sheets of seeds are overrides, after the others, and associations.

    `suffix_list` is that of the frontier, if there is one already. Raises SettingsError for seeds of one queue with
    several budgets, and for a line of a file that names no sheet or whose queue is not known; PolicyError, and OSError
    if a file cannot be read.
    """
    frontier, problems, assign = settings.frontier, list[str](), None
    budgets, of_sheets = dict[str, Seed](), dict[str, dict[str, None]]()
    for place, seed in _with_settings(settings, problems):
        if assign is None:
            text = policy_factory.suffix_list(frontier) if suffix_list is None else suffix_list
            assign = policy_factory.assignment(frontier, text)
        try:
            key = queue_key(seed, assign, frontier)
        except InvalidUrl:
            continue  # it is refused when it is scheduled
        if seed.budget is not None and (other := budgets.setdefault(key, seed)).budget != seed.budget:
            problems.append(f"{place}: {contradiction(key, seed.budget, f'{_written(other)} has {other.budget}')}")
        for name in seed.sheet:
            of_sheets.setdefault(name, {})[key] = None
    if problems:
        raise SettingsError(problems[:MOST_PROBLEMS])
    if assign is None:
        return settings
    return msgspec.structs.replace(
        settings,
        overrides=(*settings.overrides, *_overrides(budgets)),
        associations=(*settings.associations, *_associations(settings, of_sheets)),
    )


def _overrides(budgets: Mapping[str, Seed]) -> Iterator[Override]:
    """Yield the overrides for the budgets of queues: one for each budget, as far as a pattern has room."""
    keys: dict[int | None, list[str]] = {}
    for key, seed in budgets.items():
        keys.setdefault(seed.budget, []).append(key)
    for budget, same in keys.items():
        for match, part in queue_matches(same):
            at = _written(budgets[part[0]]) if len(part) == 1 else f"{len(part):,} seeds with this budget"
            yield Override(match, {BUDGET: budget}, at=at)


def _associations(settings: Settings, of_sheets: Mapping[str, Iterable[str]]) -> Iterator[Association]:
    """Yield the associations of sheets with queues that the settings do not have yet."""
    there = {(name, match) for one in settings.associations for name in one.sheets for match in one.match}
    for name, keys in of_sheets.items():
        for match, _ in queue_matches(keys):
            if (name, match) not in there:
                yield Association(sheets=(name,), match=(match,))


def contradiction(key: str, budget: int | None, other: str) -> str:
    """Return the problem of a seed with another budget than a seed before it that is on the same queue."""
    return f"a budget of {budget} for the queue {brief(key)}, which is one queue with one budget: {other}"


def _written(seed: Seed) -> str:
    return f"the seed {brief(seed.url or '', 200)}"


def parallel_note(settings: Settings) -> Iterator[str]:
    """Yield PARALLEL if some seed has a budget or a sheet for one of several queues of its host. Raises OSError."""
    if policy_factory.has_parallel_queues(settings.frontier) and any(
        seed.queue is None for _, seed in _with_settings(settings, [])
    ):
        yield PARALLEL


def _with_settings(settings: Settings, problems: list[str]) -> Iterator[tuple[str, Seed]]:
    """Yield the seeds that have a budget or a sheet, with their places; append the problems of lines to `problems`."""
    by_address = policy_factory.goes_by_address(settings.frontier)
    for index, entry in enumerate(settings.seeds):
        alone = entry.budget is not None or bool(entry.sheet)
        if entry.url is not None:
            if alone:
                yield f"seeds[{index}]", entry
            continue
        for number, line in url_lists.entries(entry):
            if isinstance(line, ListedUrl) and (alone or line.given):
                seed = url_lists.seed_of(line, entry)
                found = [sheet_objection(name, settings.sheets) for name in seed.sheet if name not in settings.sheets]
                if by_address and seed.queue is None and (seed.budget is not None or seed.sheet) and is_named(seed.url):
                    found.append(BY_ADDRESS)
                column = line.given["sheet"].column if line.given and "sheet" in line.given else line.column
                place = f"{entry.file}:{number}:{column}"
                problems += [f"{place}: {text}" for text in found]
                if not found and (seed.budget is not None or seed.sheet):
                    yield place, seed
            if len(problems) > MOST_PROBLEMS:
                return
