"""The compiled kernel of the engine, in Rust: it admits plain URLs by the batch, and takes the plain turns of queues.

The Python engine does the same.

Where it was not built (no compiler of Rust, no wheel for the platform), everything runs in Python. The environment
variable BUDGETFRONTIER_KERNEL=python switches it off.
"""

from __future__ import annotations

import importlib
import os
import warnings
from types import ModuleType
from typing import Final

from budgetfrontier.errors import FrontierError

SWITCH: Final = "BUDGETFRONTIER_KERNEL"
_MODULE = "budgetfrontier.engine.native._native"


def _load() -> tuple[ModuleType | None, str]:
    """Return the extension module, or None and why it is not there. Warns of a wrong value, and of a damaged module."""
    asked = os.environ.get(SWITCH, "").casefold()
    if asked == "python":
        return None, f"{SWITCH}=python"
    if asked not in ("", "native"):
        warnings.warn(
            f"{SWITCH} is python, native, or not set: {asked!r} changes nothing", RuntimeWarning, stacklevel=2
        )
    try:
        return importlib.import_module(_MODULE), ""
    except ModuleNotFoundError:
        return None, "the native one is not installed"
    except ImportError as e:  # built for another platform, or damaged
        warnings.warn(f"the native kernel is not used: {e}; install it again", RuntimeWarning, stacklevel=2)
        return None, str(e)


_LOADED: Final = _load()
kernel: Final = _LOADED[0]
"""The extension module; None where Python does its work."""
NAME: Final = "Python" if kernel is None else "native"
"""Which of the two runs."""


def described() -> str:
    """Return which of the two runs, and why it is not the native one.

    >>> described()  # doctest: +SKIP
    'Python kernel: BUDGETFRONTIER_KERNEL=python'
    """
    why = _LOADED[1]
    return f"{NAME} kernel: {why}" if why else f"{NAME} kernel"


def panic(error: BaseException) -> FrontierError | None:
    """Return the error to be raised for a panic of the kernel, which PyO3 raises as no Exception; None for others."""
    if type(error).__name__ != "PanicException":
        return None
    told = FrontierError(f"the native kernel failed: {error}. {SWITCH}=python does without it")
    told.__cause__ = error
    return told
