"""Python's engine and the compiled kernel make the same of every history, under all settings that there are.

The two run in processes of their own. After each step they have returned, raised and told hooks the same, and have
committed the same, byte for byte in every table; in between, each opens what the other one wrote.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.engine import native
from budgetfrontier.settings import plugins
from budgetfrontier.settings.field import all_settings
from budgetfrontier.settings.schema import FrontierSettings, GroupSettings
from tests.engine.native import drawn_settings
from tests.engine.native.drawn_settings import ALL, OF_GROUPS, STRUCTURED, Kind, values_of
from tests.engine.native.histories import history
from tests.engine.native.player import Options, Player, Remote, Step, without_kernel
from tests.examples import few

pytestmark = [
    pytest.mark.usefixtures("same_ids"),
    pytest.mark.skipif(native.kernel is None, reason=native.described()),
]


@pytest.fixture(scope="module")
def python() -> Iterator[Remote]:
    with without_kernel() as remote:
        yield remote


@pytest.mark.parametrize("kind", Kind)
def test_both_kernels_make_the_same_of_a_history(python: Remote, kind: Kind) -> None:
    @few(27)
    @given(
        settings=drawn_settings.settings(kind),
        options=st.builds(Options, st.booleans(), st.sampled_from((False, False, True))),
        seed=st.integers(0, 1 << 32),
        length=st.integers(10, 90),
    )
    def check(settings: dict[str, Any], options: Options, seed: int, length: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            compare(python, folder, settings, options, history(kind, seed, length))

    check()


def compare(python: Remote, folder: str, settings: dict[str, Any], options: Options, story: list[Step]) -> None:
    """Let the same happen to a frontier of each kernel."""
    native, folders = Player(), [f"{folder}/{name}" for name in ("one", "other")]
    python("new")

    def opened() -> None:
        native.open(folders[0], settings, options)
        python("open", folders[1], settings, options)

    opened()
    try:
        for step in [*story, Step("check")]:
            if step.op == "swap":
                native.close()
                python("close")
                folders.reverse()
                opened()
            else:
                ours, theirs = native.do(step), python("do", step)
                assert not ours.broken, ours.broken
                assert (ours.result, ours.commit) == (theirs.result, theirs.commit), f"after {step}"
                assert ours.tables == theirs.tables, f"after {step}: {differing(native.rows(), python('rows'))}"
    finally:
        native.close()
        python("close")


def differing(ours: dict[str, list[Any]], theirs: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the records that only one of them has, by table."""
    return {name: sorted(set(ours[name]) ^ set(theirs[name])) for name in ours if ours[name] != theirs[name]}


def test_every_setting_is_drawn() -> None:
    """A type or a policy that the schema gains needs values here."""
    defaults = {row.name: row.default for section in (FrontierSettings, GroupSettings) for row in all_settings(section)}
    for name, field in [*ALL.items(), *OF_GROUPS.items()]:
        assert any(value != defaults[name] for value in values_of(field)), name
    for kind in plugins.KINDS:
        drawn = {next(iter(spec)) if isinstance(spec, dict) else spec for spec in STRUCTURED[f"policy:{kind}"]}
        assert drawn >= set(plugins.known(kind)), kind
