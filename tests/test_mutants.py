"""The choice of modules for mutation tests."""

from __future__ import annotations

import pytest

from tests.mutants import chosen, configuration


def test_modules_are_tried_with_the_tests_of_their_package() -> None:
    assert chosen(["rules/budgets.py"]) == {"rules": ["rules/budgets.py"]}
    everything = chosen([])
    assert set(everything) == {"rules", "engine"} and "engine/admission/admit.py" in everything["engine"]
    text = configuration(["rules/budgets.py", "rules/charges.py"])
    assert "    budgetfrontier/rules/budgets.py\n    budgetfrontier/rules/charges.py\n" in text
    assert "    tests/rules\n" in text
    with pytest.raises(ValueError, match="storage is none of rules, engine"):
        configuration(["storage/keys.py"])
