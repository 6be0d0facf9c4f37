"""Fuzz by hand, `python -m tests.fuzz TARGET [libFuzzer options]`, and flood, `python -m tests.fuzz floods`.

    python -m venv /tmp/fuzz && /tmp/fuzz/bin/pip install atheris -e '.[dev]'
    /tmp/fuzz/bin/python -m tests.fuzz urls -max_total_time=300

atheris is no dependency: it has wheels for a few versions of Python only. It starts from the corpus of the target and
keeps what it finds in /tmp/fuzz-TARGET; what is worth a test of its own goes to `tests/fuzz/corpus/TARGET`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")


def main(arguments: list[str]) -> int:
    """Run a target until libFuzzer's options say that it is enough, or something is found; or run the floods."""
    name, *options = arguments or [""]
    if name == "floods":
        from tests.fuzz import floods

        return floods.main(options)
    targets = sorted(folder.name for folder in CORPUS.iterdir())
    if name not in targets:
        print(f"{__doc__}\nTargets: {', '.join(targets)}", file=sys.stderr)
        return 2
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: pip install atheris, best into an environment of its own", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["budgetfrontier"]):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    found = Path(tempfile.gettempdir(), f"fuzz-{name}")
    found.mkdir(exist_ok=True)
    folders = [str(found), str(CORPUS / name)]
    atheris.Setup([sys.argv[0], *options, *folders], lambda raw: target.check(target.read(raw)))
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
