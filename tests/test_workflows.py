"""What the workflows of GitHub name is there; `make workflows` checks their form."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in GITHUB.glob("workflows/*.yml")}


def steps() -> list[dict[str, Any]]:
    return [step for each in WORKFLOWS.values() for job in each["jobs"].values() for step in job.get("steps", ())]


def commands() -> str:
    """What the steps run, and what a release runs here."""
    return "\n".join([*(step.get("run", "") for step in steps()), (ROOT / ".ci/release").read_text(encoding="utf-8")])


def test_targets_of_make_and_scripts_that_are_named_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"^ *make ([\w-]+)", commands(), re.MULTILINE))
    assert {"check", "dist", "docs", "test"} <= named <= targets
    scripts = set(re.findall(r"(?<![\w./])\.ci/[\w-]+", commands() + makefile))
    assert ".ci/try-wheel" in scripts
    assert [script for script in scripts if not os.access(ROOT / script, os.X_OK)] == []


@pytest.mark.parametrize("job", ["tests", "wheel"])
def test_each_python_that_is_named_is_tested(job: str) -> None:
    prefix = "Programming Language :: Python :: 3."
    named = [each.removeprefix(prefix[:-2]) for each in PROJECT["classifiers"] if each.startswith(prefix)]
    assert WORKFLOWS["ci.yml"]["jobs"][job]["strategy"]["matrix"]["python"] == named


def test_only_the_job_that_publishes_may_sign_and_none_may_write_code() -> None:
    for name, workflow in WORKFLOWS.items():
        assert workflow["permissions"] == {"contents": "read"}, name
        for job_name, job in workflow["jobs"].items():
            writes = {what for what, right in job.get("permissions", {}).items() if right == "write"}
            assert writes <= ({"id-token"} if job_name == "publish" else {"security-events"}), job_name
    publish = WORKFLOWS["publish.yml"]["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"} and publish["environment"]["name"] == "pypi"


def test_what_is_published_is_what_was_tried() -> None:
    names = [step["with"]["name"] for step in steps() if "download-artifact" in step.get("uses", "")]
    assert names == ["dist", "dist"]
    assert WORKFLOWS["publish.yml"]["jobs"]["publish"]["needs"] == "ci"


def test_the_addresses_of_the_project_are_those_of_pyproject() -> None:
    urls = PROJECT["urls"]
    slug = urls["Source"].removeprefix("https://github.com/")
    index = f"https://pypi.org/project/{PROJECT['name']}/"
    known = (urls["Source"], urls["Documentation"], index, f"https://raw.githubusercontent.com/{slug}/")
    texts = [
        *ROOT.glob("*.md"),
        *(path for path in GITHUB.rglob("*") if path.is_file()),
        *(ROOT / "docs").rglob("*.md"),
    ]
    for path in texts:
        for url in re.findall(r"https://[^\s)>\"'`\]]*budgetfrontier[^\s)>\"'`\]]*", path.read_text(encoding="utf-8")):
            assert url.startswith(known), f"{path}: {url}"
