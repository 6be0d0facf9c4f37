"""What a wheel must carry, and what importing must not."""

from __future__ import annotations

import ast
import asyncio
import filecmp
import inspect
import os
import pydoc
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import metadata, packages_distributions, version
from importlib.resources import files
from pathlib import Path

import aiohttp
import aiohttp.web
import pytest
from aiohttp.client_proto import ResponseHandler
from grpc._cython import cygrpc
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from setuptools.config.pyprojecttoml import read_configuration
from trove_classifiers import classifiers

import budgetfrontier
from budgetfrontier.tools.cli.configure import SCRAPY_PROJECT
from tests.support import PATIENCE

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NETWORK = {"certifi", "charset_normalizer", "idna", "requests", "requests_file", "urllib3"}  # what tldextract imports
HEAVY = {"aiohttp", "lmdb", "protego", "rich", "tldextract", "yaml"} | NETWORK


def imported_by(statement: str) -> set[str]:
    """The top-level modules that are loaded after a statement, in a fresh interpreter."""
    script = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PATIENCE)
    return set(run.stdout.split())


@pytest.fixture(scope="module", params=["python", "native"])
def distributions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution of the repository, and the wheel that is built from it."""
    if request.param == "native" and shutil.which("cargo") is None:
        assert os.environ.get("CI") != "true", "cargo is not installed"
        pytest.skip("the wheel with the native kernel was NOT tested: cargo is not installed")
    room = tmp_path_factory.mktemp("distributions")
    for name in (".ci", ".github", "benchmarks", "budgetfrontier", "config", "docs", "policies", "tests"):
        made = shutil.ignore_patterns("__pycache__", "_build", "target")
        shutil.copytree(ROOT / name, room / "repository" / name, symlinks=True, ignore=made)
    for path in (
        *ROOT.glob("*.md"),
        *(ROOT / name for name in ("LICENSE", "MANIFEST.in", "Makefile", "pyproject.toml")),
    ):
        shutil.copy(path, room / "repository")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(room / "dist"), "repository"]
    compiled = {"CARGO_TARGET_DIR": str(ROOT / "budgetfrontier/engine/native/target")}  # as `make test` has it
    environment = compiled | os.environ | {"BUDGETFRONTIER_KERNEL": request.param}
    subprocess.run(
        command, cwd=room, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True,
        timeout=PATIENCE,
    )  # fmt: skip
    return room / "dist"


def files_of_source(distributions: Path) -> set[str]:
    """The files of the source distribution, without the folder that holds them all."""
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as archive:
        return {each.name.partition("/")[2] for each in archive if each.isfile()}


def test_the_source_distribution_has_what_tests_and_documentation_need_and_no_raw_results(distributions: Path) -> None:
    names = files_of_source(distributions)
    of_tests = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py")}
    assert of_tests <= names
    assert {"CHANGELOG.md", "LICENSE", "Makefile", "docs/conf.py", "docs/screenshots/overview.png", ".ci/run"} <= names
    assert {name for name in names if name.startswith("benchmarks/results/") and not name.endswith(".md")} == set()
    crate = ROOT / "budgetfrontier/engine/native"
    sources = [crate / "Cargo.toml", crate / "Cargo.lock", crate / "rustfmt.toml", *(crate / "src").rglob("*.rs")]
    of_crate = {str(path.relative_to(ROOT)) for path in (*sources, *crate.glob("*.py"))}
    assert {name for name in names if name.startswith("budgetfrontier/engine/native/")} == of_crate
    assert next(distributions.glob("*.tar.gz")).stat().st_size < 4_000_000


def test_the_wheel_has_the_package_alone_whole_and_for_any_machine_without_kernel(distributions: Path) -> None:
    name = f"budgetfrontier-{budgetfrontier.__version__}"
    path = next(distributions.glob("*.whl"))
    with zipfile.ZipFile(path) as wheel:
        names = {each for each in wheel.namelist() if not each.startswith(f"{name}.dist-info/")}
    tags = path.name.removeprefix(f"{name}-")
    if tags != "py3-none-any.whl":
        assert tags.startswith("cp311-abi3-linux_")
        names.remove("budgetfrontier/engine/native/_native.abi3.so")
    package = ROOT / "budgetfrontier"
    modules = {str(path.relative_to(ROOT)) for path in package.rglob("*.py")}
    modules |= {f"budgetfrontier/settings/policies/{path.name}" for path in (ROOT / "policies").glob("*.py")}
    written = {f"budgetfrontier/tools/cli/templates/scrapy_project/{path}" for path in SCRAPY_PROJECT}
    modules |= {each for each in written if each.endswith(".py")}
    assert {each for each in names if each.endswith(".py")} == modules
    suffixes = {".cfg", ".css", ".html", ".js", ".proto", ".pyi", ".svg", ".typed", ".yaml"}
    assert {Path(each).suffix for each in names - modules} <= suffixes
    assert written <= names


def test_the_kernel_of_a_wheel_is_imported(distributions: Path, tmp_path: Path) -> None:
    path = next(distributions.glob("*.whl"))
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(tmp_path)
    script = "from budgetfrontier.engine.native import kernel; print(kernel and kernel.__file__)"
    environment = {"PYTHONPATH": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
        timeout=PATIENCE,
    )  # fmt: skip
    with_kernel = "none-any" not in path.name
    assert run.stdout.strip() == str(tmp_path / "budgetfrontier/engine/native/_native.abi3.so" if with_kernel else None)


@pytest.mark.parametrize("name", ["policies", "config"])
def test_top_level_folders_are_linked_into_the_package(name: str) -> None:
    """In a source distribution, which has no symbolic links, they are there twice."""
    inside, outside = ROOT / "budgetfrontier" / "settings" / name, ROOT / name
    assert inside.resolve() == outside if inside.is_symlink() else not filecmp.dircmp(inside, outside).diff_files


def test_profiles_and_type_marker_are_package_data() -> None:
    package = files("budgetfrontier")
    assert package.joinpath("py.typed").is_file()
    for name in ("default", "demo", "round-robin", "site-first", "budgeted-rotation", "capped", "sheets", "trap-guard"):
        assert package.joinpath("settings", "config", f"{name}.yaml").is_file(), name


def test_version_is_one() -> None:
    """The version stands in the package alone, and the changelog has a section for it."""
    project = PYPROJECT["project"]
    assert project["dynamic"] == ["version"] and "version" not in project
    read = read_configuration(ROOT / "pyproject.toml")["project"]["version"]
    assert read == version("budgetfrontier") == budgetfrontier.__version__, "install the package again"
    assert f"## [{read}] - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert metadata("budgetfrontier")["License-Expression"] == "Apache-2.0"


def test_classifiers_are_those_of_the_index() -> None:
    mine = PYPROJECT["project"]["classifiers"]
    assert mine == sorted(set(mine))
    assert set(mine) <= classifiers


def test_the_pythons_that_are_named_agree() -> None:
    prefix = "Programming Language :: Python :: 3."
    mine = [int(each.removeprefix(prefix)) for each in PYPROJECT["project"]["classifiers"] if each.startswith(prefix)]
    assert mine == list(range(mine[0], mine[-1] + 1))
    assert PYPROJECT["project"]["requires-python"] == f">=3.{mine[0]}"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == f"3.{mine[0]}"
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py3{mine[0]}"


@pytest.mark.parametrize("name", ["aiohttp", "grpcio", "scrapy"])
def test_what_has_names_that_we_use_undocumented_has_an_upper_bound_and_is_within_it(name: str) -> None:
    """Whoever raises a bound has tried the newest release: this says when there is one to try."""
    extras = PYPROJECT["project"]["optional-dependencies"]
    mine = [Requirement(text) for extra in extras.values() for text in extra]
    bounds = [each.specifier for each in mine if each.name == name]
    assert bounds and all(any(one.operator == "<" for one in bound) for bound in bounds)
    assert all(version(name) in bound for bound in bounds)


def imported(path: Path) -> set[str]:
    """The top-level modules that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(str(node.module))
    return {name.partition(".")[0] for name in names}


def test_what_we_import_is_declared_and_not_only_brought_by_others() -> None:
    project = PYPROJECT["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {canonicalize_name(Requirement(text).name) for group in groups for text in group}
    files_of_ours = [*(ROOT / "budgetfrontier").rglob("*.py"), *(ROOT / "policies").rglob("*.py")]
    other_pythons = {"backports"} if sys.version_info >= (3, 14) else {"compression"}
    names = set().union(*map(imported, files_of_ours)) - sys.stdlib_module_names - {"budgetfrontier"} - other_pythons
    sources = packages_distributions()
    undeclared = {
        name for name in names if not declared & {canonicalize_name(each) for each in (name, *sources.get(name, ()))}
    }
    assert undeclared == set()


def test_the_undocumented_names_that_we_use_are_there() -> None:
    async def of_aiohttp() -> list[object]:
        loop = asyncio.get_running_loop()
        async with aiohttp.TCPConnector() as connector:
            handler = ResponseHandler(loop)
            return [
                connector._conns, connector._factory, connector._release, connector._loop,
                getattr(handler, "_parser", missing), getattr(handler, "_payload", missing),
            ]  # fmt: skip

    missing = object()
    assert missing not in asyncio.run(of_aiohttp())
    assert list(inspect.signature(aiohttp.web.RequestHandler.handle_error).parameters) == [
        "self", "request", "status", "exc", "message",
    ]  # fmt: skip
    assert callable(cygrpc.ReceiveMessageOperation) and callable(cygrpc.SendMessageOperation)
    assert list(inspect.signature(aiohttp.TCPConnector._release).parameters) == [
        "self", "key", "protocol", "should_close",
    ]  # fmt: skip


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert not HEAVY & imported_by("import budgetfrontier")


def test_the_public_names_are_found_by_those_who_look() -> None:
    assert set(dir(budgetfrontier)) >= set(budgetfrontier.__all__)
    text = pydoc.TextDoc().docmodule(budgetfrontier)
    assert "class Frontier" in pydoc.plain(text) and "__getattr__" not in text


PARTS = {
    "crawl": ("crawler.job", "crawler.links", "crawler.outputs.sinks", "crawler.demo.web"),
    "console": ("tools.console.app", "tools.console.top_terminal"),
    "grpc": ("remote", "cluster.client", "server.urlfrontier.service"),
    "kafka": ("bus.kafka", "cluster.directory.kafka"),
    "redis": ("bus.redis_streams",),
    "zmq": ("bus.zeromq",),
    "scrapy": ("scrapy",),
}
"""Modules by the extra that they need."""


def test_an_extra_that_is_missing_is_named_by_the_parts_that_need_it() -> None:
    packages = "aiohttp confluent_kafka grpc jinja2 markupsafe multidict protego redis rich scrapy yarl zmq"
    script = (
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({packages!r}.split()))\n"
        "from budgetfrontier.errors import MissingExtra\n"
        "for module in sys.argv[1:]:\n"
        "    try:\n        importlib.import_module('budgetfrontier.' + module)\n"
        "    except MissingExtra as error:\n        print(error)\n"
    )
    modules = [module for of_extra in PARTS.values() for module in of_extra]
    done = subprocess.run([sys.executable, "-c", script, *modules], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"this needs the extra \"{extra}\": pip install 'budgetfrontier[{extra}]'"
        for extra, of_extra in PARTS.items()
        for _ in of_extra
    ]


def test_the_health_check_without_grpc_says_what_it_needs() -> None:
    code = "import runpy, sys; sys.modules['grpc'] = None; sys.argv[1:] = ['127.0.0.1:1']\n"
    code += "runpy.run_module('budgetfrontier.server.health', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1, "this needs the extra \"grpc\": pip install 'budgetfrontier[grpc]'"
    )  # fmt: skip


EXTRAS = (
    *("aiohttp", "brotlicffi", "confluent_kafka", "fastwarc", "grpc", "jinja2", "prometheus_client", "redis", "rich"),
    *("scrapy", "warcio", "zmq"),
)


@pytest.mark.parametrize(
    ("module", "needs"),
    [
        ("budgetfrontier.leasing", ()),
        ("budgetfrontier.aio", ()),
        ("budgetfrontier.scrapy", ("scrapy",)),
        ("budgetfrontier.tools.cli.submission", ()),
        ("budgetfrontier.tools.cli.transfer", ()),
        ("budgetfrontier.bus.workers.database", ()),
    ],
)
def test_what_needs_no_other_extra_is_imported_without_any(module: str, needs: tuple[str, ...]) -> None:
    missing = [extra for extra in EXTRAS if extra not in needs]
    script = f"import sys; sys.modules.update(dict.fromkeys({missing}))\nimport {module}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_imports_nothing_heavy() -> None:
    statement = "from budgetfrontier.tools.cli import build_parser; build_parser()"
    assert not HEAVY & imported_by(statement)


def test_the_library_needs_no_extra_and_no_suffix_list() -> None:
    statement = "from budgetfrontier import Frontier; Frontier.open(':memory:').close()"
    assert HEAVY & imported_by(statement) == {"lmdb"}


def test_policies_are_not_installed_as_a_package_of_their_own(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import policies"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert "ModuleNotFoundError" in run.stderr
