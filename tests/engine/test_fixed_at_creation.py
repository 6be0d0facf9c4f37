"""What a frontier was begun with stays: its canonical form and its public suffix list."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import SettingsError
from budgetfrontier.settings.policies import assignment
from budgetfrontier.storage import keys
from tests.storage.repair.damaging import damaging
from tests.support import on_disk


def test_a_frontier_from_before_the_default_rule_keeps_its_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = ["https://a.b.test/", "https://c.b.test/"]
    with monkeypatch.context() as earlier:
        earlier.setattr(assignment, "with_default_rule", str)
        with on_disk(tmp_path / "old", queue_assignment_policy="registered-domain") as f:
            f.schedule(urls[0])
    with on_disk(tmp_path / "old") as f:
        f.schedule(urls[1])
        assert f.queue("a.b.test") is not None and f.queue("c.b.test") is not None and f.queue("b.test") is None
    with on_disk(tmp_path / "new", queue_assignment_policy="registered-domain") as f:
        f.schedule_many(urls)
        queue = f.queue("b.test")
        assert queue is not None and queue.queued == 2


def test_the_suffix_list_is_that_of_the_first_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_disk(tmp_path, queue_assignment_policy="registered-domain") as f:
        f.schedule("https://www.a.co.uk/")
        assert f.queue("a.co.uk") is not None
    monkeypatch.setattr(assignment, "bundled_suffix_list", lambda: "uk\n")
    with on_disk(tmp_path) as f:
        f.schedule_many(["https://www.a.co.uk/2", "https://www.b.co.uk/"])
        assert f.queue("b.co.uk") is not None
        assert f.queue("co.uk") is None


def test_another_canonical_form_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.schedule("https://www.a.test/")
    with pytest.raises(SettingsError, match=r"as it was \(frontier.canonicalization.strip_www: true\), or export"):
        on_disk(tmp_path, canonicalization={"strip_www": False})
    with on_disk(tmp_path) as f:
        assert f.settings.frontier.canonicalization.strip_www is True
        assert f.schedule("https://a.test/").value == "DUPLICATE"


@pytest.mark.parametrize("keeps", [True, False])
def test_whether_urls_are_kept_is_fixed_at_creation(tmp_path: Path, keeps: bool) -> None:
    with on_disk(tmp_path, keep_urls=keeps) as f:
        f.schedule("https://a.test/")
    for lost in False, True:
        if lost:
            with damaging(tmp_path / "frontier") as damage:
                damage.delete(keys.META, b"settings")
        with pytest.raises(SettingsError, match="keeps its URLs" if keeps else "fixed at creation"):
            on_disk(tmp_path, keep_urls=not keeps)
    with on_disk(tmp_path, keep_urls=keeps) as f:
        f.check()
