"""The build backend: that of setuptools, which also compiles the kernel where cargo is.

A wheel with the kernel is for one platform, one without it for any. The environment variable BUDGETFRONTIER_KERNEL
decides: with "python" no kernel is compiled; with "native" the build fails without one. With neither, the kernel is
compiled if cargo is on the PATH, and is left out, with a message, if that fails.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from setuptools import setup
from setuptools.build_meta import _BuildMetaBackend

SWITCH: Final = "BUDGETFRONTIER_KERNEL"
CRATE: Final = Path("budgetfrontier/engine/native")  # a build starts in the folder of pyproject.toml
NEEDS: Final = ["setuptools-rust>=1.12"]


def asked() -> str:
    """Return the kernel that the environment asks for: "python", "native" or "". Any other value ends the build."""
    value = os.environ.get(SWITCH, "").casefold()
    if value not in ("", "python", "native"):
        raise SystemExit(f"{SWITCH} is python, native, or not set, not {value!r}")
    return value


def kernel_is_wanted() -> bool:
    """Tell whether to compile the kernel. Pythons without the stable ABI (PyPy, free-threaded) do not ask for it."""
    wanted = asked()
    stable_abi = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
    return wanted == "native" or (wanted != "python" and stable_abi and shutil.which("cargo") is not None)


class BuildBackend(_BuildMetaBackend):
    """The hooks of PEP 517 and 660. The source distribution is the same with and without cargo."""

    _with_kernel = False

    def get_requires_for_build_wheel(self, config_settings: object = None) -> list[str]:
        """Return what wheels, editable ones included, need besides what pyproject.toml lists."""
        return NEEDS if kernel_is_wanted() else []

    def build_wheel(self, *args: Any, **options: Any) -> str:
        """Build a wheel, with the kernel or without it, and return the name of the file."""
        return self._built(super().build_wheel, *args, **options)

    def build_editable(self, *args: Any, **options: Any) -> str:
        """Build an editable wheel, whose kernel is put into the sources, and return the name of the file."""
        name = self._built(super().build_editable, *args, **options)
        if not self._with_kernel:  # lest that of an earlier build is imported
            (CRATE / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}").unlink(missing_ok=True)
        return name

    def _built(self, build: Callable[..., str], *args: Any, **options: Any) -> str:
        self._with_kernel = kernel_is_wanted()
        try:
            return build(*args, **options)
        except (Exception, SystemExit) as e:  # setup() ends the process where a command fails
            if not self._with_kernel or asked() == "native":
                raise
            print(f"budgetfrontier: the native kernel is left out, for it was not built: {e}", file=sys.stderr)
        self._with_kernel = False
        return build(*args, **options)

    def run_setup(self, setup_script: str = "setup.py") -> None:
        """Run the command in sys.argv; there is no setup.py."""
        if not self._with_kernel:
            setup()
            return
        from setuptools_rust import RustExtension

        # Cargo compiles PyO3 again for each other interpreter: an environment that lasts for one build is none.
        os.environ.setdefault("SETUPTOOLS_RUST_PEP517_USE_BASE_PYTHON", "1")
        manifest = str(CRATE / "Cargo.toml")
        kernel = RustExtension(
            "budgetfrontier.engine.native._native", manifest, cargo_manifest_args=["--locked"], debug=False
        )
        setup(rust_extensions=[kernel], options={"bdist_wheel": {"py_limited_api": "cp311"}})


backend: Final = BuildBackend()
