"""Programs that tests need, and cannot bring themselves."""

from __future__ import annotations

import subprocess

from tests.support import PATIENCE


class NotInstalled(Exception):
    """A program is missing, or what it has to fetch."""


def run_installed(*command: object) -> None:
    """Run a program of the system to its end. Raises NotInstalled."""
    try:
        subprocess.run([*map(str, command)], check=True, capture_output=True, text=True, timeout=PATIENCE)
    except FileNotFoundError as error:
        raise NotInstalled(f"{command[0]} is not installed (.ci/system-packages installs it)") from error
    except subprocess.CalledProcessError as error:
        raise NotInstalled(f"{command[0]} failed: {error.stdout:.2000}{error.stderr:.2000}") from error
    except subprocess.TimeoutExpired as error:
        raise NotInstalled(f"{command[0]} did not end") from error
