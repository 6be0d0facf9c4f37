"""What the workflows of GitHub name is there; `make workflows` checks their form."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
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
    """The jobs after those that build take all that these have uploaded; the kernel is built from the first of them."""
    downloads = [step["with"] for step in steps() if "download-artifact" in step.get("uses", "")]
    everything = {"pattern": "dist*", "path": "dist", "merge-multiple": True}
    assert downloads == [{"name": "dist", "path": "dist"}, everything, everything]
    assert WORKFLOWS["ci.yml"]["jobs"]["wheel"]["needs"] == "kernel"
    assert WORKFLOWS["ci.yml"]["jobs"]["kernel"]["needs"] == "build"
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


@pytest.mark.parametrize(
    ("variables", "answer"),
    [
        ({"DRY_RUN": "1", "PYTHONS": "no-python"}, "release: PYTHONS names no-python, which is no Python here"),
        ({"DRY_RUN": "0"}, "release: CHANGELOG.md has no line '## [0.1.0] - YEAR-MONTH-DAY'"),
        ({"DRY_RUN": "yes"}, "release: DRY_RUN is 1, for a run that makes no tag, or 0, not 'yes'"),
        ({"DRY_RUN": "1", "PYTHONS": sys.executable}, f"release: 0.1.0, with {sys.executable}\nmake has begun"),
    ],
)
def test_what_is_wrong_ends_a_release_before_its_long_steps(
    tmp_path: Path, variables: dict[str, str], answer: str
) -> None:
    for folder in (".ci", "budgetfrontier"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / ".ci/release", tmp_path / ".ci")
    (tmp_path / "budgetfrontier/__init__.py").write_text('__version__ = "0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("## [0.1.0] - not dated\n")
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "Makefile").write_text("check:\n\t@echo make has begun; exit 1\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "MAKE"))}
    who = ("-c", "user.name=a", "-c", "user.email=a@a.test")
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "a"]):
        subprocess.run(["git", *command], cwd=tmp_path, env=environment, check=True)
    release = str(tmp_path / ".ci/release")
    done = subprocess.run(
        release, cwd=tmp_path, env=environment | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode and done.stdout.startswith(answer)
