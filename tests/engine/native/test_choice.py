"""Which engine a program runs: the environment variable BUDGETFRONTIER_KERNEL, and kernels that cannot be loaded."""

from __future__ import annotations

import importlib
import warnings

import pytest

from budgetfrontier.engine import native


@pytest.mark.parametrize("value", ["python", "Python", "PYTHON"])
def test_the_kernel_is_switched_off_in_any_spelling(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.SWITCH, value)
    assert native._load() == (None, "BUDGETFRONTIER_KERNEL=python")


def test_a_wrong_value_is_warned_of_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.SWITCH, raising=False)
    usual = native._load()
    monkeypatch.setenv(native.SWITCH, "pyhton")
    with pytest.warns(RuntimeWarning, match="'pyhton' changes nothing"):
        assert native._load() == usual
    monkeypatch.setenv(native.SWITCH, "native")
    with warnings.catch_warnings(action="error"):
        assert native._load() == usual


def test_a_kernel_that_cannot_be_loaded_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(name: str) -> None:
        raise ImportError("invalid ELF header")

    monkeypatch.delenv(native.SWITCH, raising=False)
    monkeypatch.setattr(importlib, "import_module", damaged)
    with pytest.warns(RuntimeWarning, match="is not used: invalid ELF header; install it again"):
        assert native._load() == (None, "invalid ELF header")
