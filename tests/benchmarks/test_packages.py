"""The measurement of the packages covers each extra, and the documentation has its newest figures."""

from __future__ import annotations

from pathlib import Path

from benchmarks import packages, script

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "packages.md"
FOUND = {
    "core": {"sizes": {"lmdb": 1_500_000}, "starts": {"`import x`": {"seconds": 0.02, "bytes": 18e6, "network": []}}},
    "crawl": {
        "sizes": {"lmdb": 1_500_000, "rich": 2_700_000, "small.py": 100},
        "starts": {"import y": {"seconds": 0.5, "bytes": 50e6, "network": ["requests"]}},
    },
}


def test_each_extra_for_users_is_measured() -> None:
    assert {name for extras in packages.EXTRAS for name in extras.split(",")} == packages.declared()


def test_sizes_are_those_of_all_files(tmp_path: Path) -> None:
    where = tmp_path / "lib" / "python3.11" / "site-packages"
    (where / "rich" / "__pycache__").mkdir(parents=True)
    (where / "rich" / "__pycache__" / "text.pyc").write_bytes(bytes(30))
    (where / "rich" / "text.py").write_bytes(bytes(12))
    (where / "six.py").write_bytes(bytes(5))
    assert packages.sizes(tmp_path) == {"rich": 42, "six.py": 5}


def test_tables() -> None:
    assert "| `budgetfrontier[crawl]` | 4.2 | 2.7 | rich 2.7 |" in packages.sizes_table(FOUND)
    assert "| crawl | `import y` | 500 | 50 | imported |" in packages.starts_table(FOUND)


def test_the_page_has_the_newest_measurements() -> None:
    newest = max(script.RESULTS.glob("packages-*.md")).read_text(encoding="utf-8")
    rows = {line for line in newest.splitlines() if line.startswith("| ")}
    page = PAGE.read_text(encoding="utf-8").splitlines()
    assert rows <= set(page)
