"""The build backend: what it builds with cargo, without it, and with one that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from budgetfrontier.engine.native import build_backend
from tests.support import PATIENCE

PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "build_backend:backend"
backend-path = ["budgetfrontier/engine/native"]

[project]
name = "small"
version = "1"

[tool.setuptools]
packages = ["budgetfrontier"]
"""
LEFT_OUT = "budgetfrontier: the native kernel is left out, for it was not built: "


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with the backend, and the extension module of an earlier editable installation."""
    native = tmp_path / "project/budgetfrontier/engine/native"
    native.mkdir(parents=True)
    (native.parent / "__init__.py").touch()
    (native / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}").touch()
    shutil.copy(build_backend.__file__, native)
    (tmp_path / "project/pyproject.toml").write_text(PROJECT)
    (tmp_path / "bin").mkdir()
    return tmp_path / "project"


def with_cargo(project: Path) -> None:
    """Put programs that fail on the PATH of a build, under the names of cargo and of the compiler."""
    for name in ("cargo", "rustc"):
        program = project.parent / "bin" / name
        program.write_text("#!/bin/sh\necho it is broken >&2\nexit 101\n")
        program.chmod(0o755)


def build(project: Path, kind: str, kernel: str | None = None) -> tuple[str, str]:
    """Call a hook in a process of its own. Return the name of what it has built, or nothing; and stderr."""
    script = (
        "import sys; sys.path.insert(0, 'budgetfrontier/engine/native')\n"
        f"from build_backend import backend; name = backend.build_{kind}('out'); print(); print(name)"
    )
    environment = {"PATH": str(project.parent / "bin")} | ({"BUDGETFRONTIER_KERNEL": kernel} if kernel else {})
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, env=environment, capture_output=True, text=True, check=False,
        timeout=PATIENCE,
    )  # fmt: skip
    return "" if done.returncode else done.stdout.splitlines()[-1], done.stderr


def left(project: Path) -> bool:
    return any((project / "budgetfrontier/engine/native").glob("_native.*"))


@pytest.mark.parametrize("kernel", [None, "python"])
def test_without_cargo_a_wheel_is_for_any_machine(project: Path, kernel: str | None) -> None:
    name, stderr = build(project, "wheel", kernel)
    assert name == "small-1-py3-none-any.whl" and LEFT_OUT not in stderr


def test_a_kernel_that_cannot_be_compiled_is_left_out_of_a_wheel_with_a_message(project: Path) -> None:
    with_cargo(project)
    name, stderr = build(project, "wheel")
    assert name == "small-1-py3-none-any.whl" and LEFT_OUT in stderr
    assert LEFT_OUT not in build(project, "wheel", "python")[1]


def test_an_editable_installation_without_a_kernel_leaves_none_of_an_earlier_one(project: Path) -> None:
    with_cargo(project)
    assert build(project, "wheel")[0] and left(project)
    assert build(project, "editable", "native")[0] == "" and left(project)
    name, stderr = build(project, "editable")
    assert name == "small-1-0.editable-py3-none-any.whl" and LEFT_OUT in stderr and not left(project)


@pytest.mark.parametrize("cargo", [True, False])
def test_a_kernel_that_is_demanded_and_cannot_be_compiled_ends_the_build(project: Path, cargo: bool) -> None:
    if cargo:
        with_cargo(project)
    assert build(project, "wheel", "native")[0] == ""


def test_another_value_ends_the_build_and_is_named(project: Path) -> None:
    name, stderr = build(project, "wheel", "rust")
    assert name == "" and "BUDGETFRONTIER_KERNEL is python, native, or not set, not 'rust'" in stderr


def test_a_source_distribution_asks_for_no_cargo(project: Path) -> None:
    with_cargo(project)
    name, stderr = build(project, "sdist", "native")
    assert name == "small-1.tar.gz" and "broken" not in stderr


@pytest.mark.parametrize(
    ("kernel", "cargo", "free_threaded", "wanted"),
    [
        (None, True, False, True),
        (None, False, False, False),
        (None, True, True, False),
        ("", True, False, True),
        ("python", True, False, False),
        ("Python", True, False, False),
        ("native", True, False, True),
        ("native", False, True, True),
    ],
)
def test_what_a_wheel_needs_to_be_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kernel: str | None, cargo: bool, free_threaded: bool, wanted: bool
) -> None:
    monkeypatch.delenv("BUDGETFRONTIER_KERNEL", raising=False)
    if kernel is not None:
        monkeypatch.setenv("BUDGETFRONTIER_KERNEL", kernel)
    if cargo:
        (tmp_path / "cargo").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": free_threaded}.get)
    needs = build_backend.NEEDS if wanted else []
    assert build_backend.backend.get_requires_for_build_wheel() == needs
    assert build_backend.backend.get_requires_for_build_editable() == needs


def test_the_kernel_is_there_in_ci() -> None:
    """A test that needs it is skipped without it, but never in CI."""
    from budgetfrontier.engine import native

    if os.environ.get("CI") == "true" and os.environ.get(native.SWITCH) != "python":
        assert native.kernel is not None
