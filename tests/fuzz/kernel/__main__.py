"""Fuzz the native kernel with cargo-fuzz: `python -m tests.fuzz.kernel [TARGET] [libFuzzer options]`.

    cargo install cargo-fuzz
    python -m tests.fuzz.kernel urls -max_total_time=600

`urls` (unless another is named) and `batches` are the targets of `tests/fuzz/targets.py`, which compare the kernel with
Python's rules; `forms` is what needs no Python, ten times as fast. Each starts from `tests/fuzz/corpus` and keeps what
it finds in /tmp/fuzz-kernel-TARGET.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
CORPORA = {"urls": "urls", "batches": "batches", "forms": "urls"}


def main(arguments: list[str]) -> int:
    """Run a target until libFuzzer's options say that it is enough, or something is found."""
    named = bool(arguments) and not arguments[0].startswith("-")
    name, options = (arguments[0], arguments[1:]) if named else ("urls", arguments)
    if name not in CORPORA or shutil.which("cargo-fuzz") is None:
        print(f"{__doc__}\nTargets: {', '.join(CORPORA)}", file=sys.stderr)
        return 2
    found = Path(tempfile.gettempdir(), f"fuzz-kernel-{name}")
    found.mkdir(exist_ok=True)
    command = ["cargo", "fuzz", "run", f"--fuzz-dir={HERE}", "--sanitizer=none", name, str(found)]
    command += [str(HERE.parent / "corpus" / CORPORA[name]), "--", f"-artifact_prefix={found}/", *options]
    return subprocess.call(command, cwd=ROOT, env=os.environ | environment())


def environment() -> dict[str, str]:
    """The variables with which a process of Rust has this Python, and its packages."""
    library = sysconfig.get_config_var("LIBDIR")
    return {
        "PYO3_PYTHON": sys.executable,
        "PYTHONHOME": sys.base_prefix,
        "PYTHONPATH": os.pathsep.join((str(ROOT), *(path for path in sys.path if path.endswith("site-packages")))),
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (library, os.environ.get("LD_LIBRARY_PATH")))),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
