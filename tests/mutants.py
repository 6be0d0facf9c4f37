"""Mutation tests by mutmut: `make mutants ARGS='rules/budgets.py'` prints the mutants that the tests let live.

For each module it prints how many of its mutants were killed.

Each mutant is a change of one place of a module, and is killed if a test of the module's own folder fails with it.
mutmut works in a copy of the repository, because it does not follow the links to `policies` and `config`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
PACKAGES = ("rules", "engine")
CONFIGURATION = """[mutmut]
source_paths = budgetfrontier
only_mutate =
    {mutated}
also_copy =
    policies
    config
    benchmarks
pytest_add_cli_args =
    -n
    0
    -p
    no:randomly
pytest_add_cli_args_test_selection =
    {tests}
use_setproctitle = false
"""


def configuration(modules: list[str]) -> str:
    """Return the configuration for modules of one package, such as "rules/budgets.py"; raise ValueError for others."""
    (package,) = {module.partition("/")[0] for module in modules}
    if package not in PACKAGES:
        raise ValueError(f"{package} is none of {', '.join(PACKAGES)}")
    paths = [f"budgetfrontier/{module}" for module in modules]
    return CONFIGURATION.format(mutated="\n    ".join(paths), tests=f"tests/{package}")


def chosen(given: list[str]) -> dict[str, list[str]]:
    """Return the modules by package: those given, or all of a package that is given by its name; without any, all."""
    found: dict[str, list[str]] = {}
    for each in given or PACKAGES:
        path = ROOT / "budgetfrontier" / each
        modules = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        for module in modules:
            if module.name != "__init__.py":
                name = module.relative_to(ROOT / "budgetfrontier").as_posix()
                found.setdefault(name.partition("/")[0], []).append(name)
    return found


def main() -> int:
    """Try the mutants of each package, and print those that live."""
    parser = argparse.ArgumentParser("tests.mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="rules, engine, or files such as rules/budgets.py")
    failed = 0
    for modules in chosen(parser.parse_args().modules).values():
        with TemporaryDirectory(prefix="mutants-") as room:
            copy = Path(room, "copy")
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", "build", "results", "_build"))
            (copy / "setup.cfg").write_text(configuration(modules), encoding="utf-8")
            mutmut = [sys.executable, "-m", "mutmut"]
            failed |= subprocess.run([*mutmut, "run"], cwd=copy, check=False).returncode
            results = subprocess.run(
                [*mutmut, "results", "--all", "true"], cwd=copy, check=True, stdout=subprocess.PIPE
            )
            print("\n".join(summary(results.stdout.decode())))
    return failed


def summary(results: str) -> list[str]:
    """Return lines on the mutants that lived, and for each module how many of those that were tried were killed."""
    tried, killed, lived = Counter[str](), Counter[str](), []
    for name, module, result in re.findall(r"(budgetfrontier\.(\S+)\.\w+__mutmut_\d+): (.*\w)", results):
        if result == "not checked":
            continue
        tried[module] += 1
        killed[module] += result in ("killed", "timeout")
        if result not in ("killed", "timeout"):
            lived.append(f"{name}: {result}")
    return lived + [f"{module}: {killed[module]:,} of {count:,} mutants killed" for module, count in tried.items()]


if __name__ == "__main__":
    raise SystemExit(main())
