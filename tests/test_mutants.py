"""The choice of modules for mutation tests."""

from __future__ import annotations

import pytest

from tests.mutants import chosen, configuration, summary


def test_modules_are_tried_with_the_tests_of_their_package() -> None:
    assert chosen(["rules/budgets.py"]) == {"rules": ["rules/budgets.py"]}
    everything = chosen([])
    assert set(everything) == {"rules", "engine"} and "engine/admission/admit.py" in everything["engine"]
    text = configuration(["rules/budgets.py", "rules/charges.py"])
    assert "    budgetfrontier/rules/budgets.py\n    budgetfrontier/rules/charges.py\n" in text
    assert "    tests/rules\n" in text
    with pytest.raises(ValueError, match="storage is none of rules, engine"):
        configuration(["storage/keys.py"])


def test_the_killed_are_counted_and_the_others_are_named() -> None:
    assert summary(
        """
    budgetfrontier.rules.budgets.x_total_of__mutmut_1: killed
    budgetfrontier.rules.budgets.x_total_of__mutmut_2: survived
    budgetfrontier.rules.wake_times.xǁWaitsǁof__mutmut_1: timeout
    budgetfrontier.rules.wake_times.xǁWaitsǁof__mutmut_2: no tests
    budgetfrontier.rules.wake_times.xǁWaitsǁof__mutmut_3: not checked
"""
    ) == [
        "budgetfrontier.rules.budgets.x_total_of__mutmut_2: survived",
        "budgetfrontier.rules.wake_times.xǁWaitsǁof__mutmut_2: no tests",
        "rules.budgets: 1 of 2 mutants killed",
        "rules.wake_times: 1 of 2 mutants killed",
    ]
