"""Nothing a user meets goes undocumented: commands, settings, policies, report fields, errors, public names."""

from __future__ import annotations

import pkgutil
import re
import tomllib
from pathlib import Path
from textwrap import dedent
from typing import cast

import pytest

import budgetfrontier
from budgetfrontier.core.model import ROW_FIELDS, CrawlUri, Outcome, QueueState, Summary
from budgetfrontier.remote import RemoteFrontier
from budgetfrontier.reports.kinds import KINDS
from budgetfrontier.settings import Settings, plugins
from budgetfrontier.settings.field import all_settings
from budgetfrontier.settings.profiles import profiles
from budgetfrontier.storage import environment
from budgetfrontier.tools.cli import main
from docs import generated

DOCS = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    """A page as it is built, what is generated included."""
    return generated.fill((DOCS / name).read_text(encoding="utf-8"))


def code(text: str) -> set[str]:
    """What a page sets in code type, outside blocks."""
    return set(re.findall(r"`([^`\n]+)`", text))


def test_every_command_is_in_the_manual_and_in_the_reference() -> None:
    manual, reference = code(page("operators.md")), page("reference/cli.md")
    words = {word.partition(" ")[0] for word in manual}
    for name, parser in generated.commands().items():
        assert name in words, f"{name} is not in docs/operators.md"
        assert f"\n### `{name}`\n\n```text\nusage: budgetfrontier {name} " in reference
        assert parser.description, f"{name} --help does not say what the command does"


@pytest.mark.parametrize("row", all_settings(Settings), ids=lambda row: row.name)
def test_every_setting_is_in_the_reference(row: object) -> None:
    assert isinstance(row, tuple)
    section, _, name = str(row[0]).rpartition(".")
    heading = f"## `{section}`" if section else "## Top level"
    after = page("reference/settings.md").partition(heading + "\n")[2].partition("\n## ")[0]
    assert f"| `{name}` |" in after


@pytest.mark.parametrize("kind", ["cost", "assignment", "precedence", "politeness", "canonicalization"])
def test_every_policy_is_in_the_reference(kind: str) -> None:
    text = page("reference/policies.md")
    section = text.partition(f"## {kind.capitalize()}")[2].partition("\n## ")[0]
    assert section, f"docs/reference/policies.md has no section {kind.capitalize()}"
    for name in plugins.known(kind):
        assert f"`{name}`" in section


def test_every_report_field_is_in_the_reference() -> None:
    named = code(page("reference/report.md"))
    assert named >= set(ROW_FIELDS)
    assert named >= set(Summary.__struct_fields__)
    assert named >= {"format", "crawl", "generated", "state", "pause_reason", "totals", "queues"}


def test_every_column_of_every_kind_of_report_is_in_the_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = page("reference/report.md").partition("\n## Other kinds\n")[2]
    with budgetfrontier.Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule("https://a.test/")
    for kind in set(KINDS) - {"frontier"}:
        assert main(["report", str(tmp_path), "--kind", kind, "--format", "csv"]) == 0
        columns = set(capsys.readouterr().out.splitlines()[0].split(","))
        row = other.partition(f"\n| `{kind}` | ")[2].partition("\n")[0]
        own = other.partition(f"\n### {kind.capitalize()}\n")[2].partition("\n### ")[0]
        named = code(page("reference/report.md") if kind == "threads" else row + own)
        assert row and columns <= named, (kind, columns - named)


def test_every_profile_is_in_the_reference() -> None:
    section = page("reference/yaml.md").partition("\n## Profiles\n")[2].partition("\n## ")[0]
    assert code(section) >= set(profiles())


def test_states_and_outcomes_are_explained() -> None:
    named = code(page("explanation/semantics.md"))
    assert named >= {str(state) for state in QueueState}
    assert named >= {str(outcome) for outcome in Outcome}


def test_the_reasons_of_invalid_uris_are_in_the_reference() -> None:
    bad: list[object] = [" ", "http://[", "ftp://a.test/", "http:///", "http://a.test:x/", "http://a.test/\ud800", 1]
    bad += [f"http://a.test/{'a' * 9000}", CrawlUri("http://a.test/", body=b"a" * (1 << 20))]
    bad += [CrawlUri("http://a.test/", queue=""), CrawlUri("http://a.test/", method=cast("str", 1))]
    bad += [CrawlUri("http://a.test/", meta=object())]
    with budgetfrontier.Frontier.open(":memory:") as frontier:
        reasons = set(frontier.schedule_many(cast("list[str]", bad)).reasons)
    table = page("reference/errors.md").partition("| reason |")[2].partition("\n\n")[0]
    named = {name for line in table.splitlines() for name in code(line.split("|")[1] if "|" in line else "")}
    assert reasons >= {"type", "queue", "too-large", "method", "meta"} and reasons <= named
    assert named - {"syntax"} <= reasons  # no URL is known that has no better reason


def test_the_limits_between_two_commits_are_those_of_the_code() -> None:
    text = page("explanation/durability.md")
    most = environment.MOST_QUEUES
    assert f"{most:,} queues in a small frontier, {most - most * 4 // 5:,} in one of many" in text
    assert f"{environment.MOST_SEEN_PAGES:,} pages" in text and f"{environment.MOST_WRITTEN >> 20} MiB of URIs" in text
    assert f"`commit_operations` ({Settings().frontier.commit_operations:,})" in text


def test_every_public_name_has_a_docstring_and_is_in_the_reference_once() -> None:
    pages = "".join(page(f"reference/api/{name}.md") for name in generated.API) + page("reference/errors.md")
    for name in budgetfrontier.__all__:
        assert getattr(budgetfrontier, name).__doc__, name
        assert len(re.findall(rf"\{{py:(?:class|exception)\}} budgetfrontier\.{name}(?=[\n(])", pages)) == 1, name
    frontier = page("reference/api/frontier.md")
    assert "{py:method} schedule(uri: str | budgetfrontier.CrawlUri) -> budgetfrontier.Admission\n" in frontier
    for name in vars(budgetfrontier.Frontier):
        assert name.startswith("_") or re.search(rf"\{{py:(method|property)\}} {name}\b", frontier), name


def test_the_example_in_the_help_of_the_package_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = "\n".join(line for line in (budgetfrontier.__doc__ or "").split("\n") if line.startswith("    "))
    found: dict[str, object] = {}
    exec(dedent(example), found)
    assert found["links"] == ["https://www.example.org/about"] and (tmp_path / "job/frontier").is_dir()


def test_the_guide_names_the_methods_that_clients_do_not_have() -> None:
    table = page("howto/share.md").partition("### What a client does not have")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\|(.*?)\|", table, re.MULTILINE))))
    names = {name for name in vars(budgetfrontier.Frontier) if not name.startswith("_")}
    assert named == names - set(vars(RemoteFrontier))


def test_the_list_of_the_reference_has_every_page_and_every_name() -> None:
    text = page("reference/api.md")
    assert {path.stem for path in (DOCS / "reference/api").glob("*.md")} == set(generated.API)
    for name, names in generated.API.items():
        assert f"\napi/{name}\n" in text and f"(api/{name}.md)" in text
        assert all(f"<budgetfrontier.{entry}>" in text for entry in names)


def test_types_that_lead_to_python_s_documentation_are_those_of_python() -> None:
    for name in {*generated.PYTHON} - {"None"}:
        assert isinstance(pkgutil.resolve_name(name if "." in name else f"builtins.{name}"), object), name


def test_every_page_is_reachable() -> None:
    listed = set()
    for index in DOCS.rglob("*.md"):
        for tree in re.findall(r"```\{toctree\}(.*?)```", index.read_text(encoding="utf-8"), re.DOTALL):
            entries = [line.strip() for line in tree.splitlines() if line.strip() and not line.startswith(":")]
            listed |= {(index.parent / entry).with_suffix(".md").resolve() for entry in entries}
    pages = {p.resolve() for p in DOCS.rglob("*.md") if "_build" not in p.parts}
    assert pages - listed == {(DOCS / "index.md").resolve()}


def test_what_is_to_be_installed_has_the_extras_that_are_named() -> None:
    files = [*DOCS.rglob("*.md"), DOCS.parent / "README.md", *(DOCS.parent / "budgetfrontier").rglob("*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in files if "_build" not in path.parts)
    named = re.findall(r"pip install '(?:budgetfrontier|\.)\[([\w,]+)\]'", text)
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(named) > 5 and {extra for names in named for extra in names.split(",")} <= set(
        project["optional-dependencies"]
    )
