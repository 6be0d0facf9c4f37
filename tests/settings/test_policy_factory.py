"""Creation of the policies that settings name."""

from __future__ import annotations

from budgetfrontier.settings import Settings
from tests.settings.files import Files, problems


def test_policies_are_looked_up() -> None:
    settings = Settings.from_dict(
        {"frontier": {"cost_policy": "org.archive.crawler.frontier.ZeroCostAssignmentPolicy"}}
    )
    assert settings.frontier.cost_policy.endswith("ZeroCostAssignmentPolicy")
    [problem] = problems({"frontier": {"cost-policy": "wagg"}})
    assert problem.startswith("frontier.cost-policy: ")
    assert "wag" in problem and "unit" in problem
    assert problems({"frontier": {"cost_policy": 5}})[0].startswith("frontier.cost_policy: expected a cost policy")
    [problem] = problems({"frontier": {"cost_policy": {"unit": {"rate": 3}}}})
    assert "rate" in problem


def test_modules_of_stored_settings_are_not_imported() -> None:
    spec = "module_that_is_not_here:policy"
    assert Settings.from_dict({"frontier": {"cost_policy": spec}}).frontier.cost_policy == spec
    assert problems({"frontier": {"cost_policy": "module_that_is_not_here:"}})


def test_a_policy_of_ones_own_is_imported(files: Files) -> None:
    [problem] = files.problems("frontier:\n  cost_policy: module_that_is_not_here:policy\n")
    assert problem.startswith("2:16: frontier.cost_policy: ")
    assert "module_that_is_not_here" in problem
