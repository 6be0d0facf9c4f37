"""Read the Docs' configuration names what exists, and treats warnings as errors, as `make docs` does."""

from __future__ import annotations

import re
import tomllib

import yaml

from tests.docs.test_examples import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_it_names_what_exists() -> None:
    config = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text(encoding="utf-8"))
    assert config["version"] == 2 and config["build"]["os"]
    assert (ROOT / config["sphinx"]["configuration"]).is_file() and config["sphinx"]["fail_on_warning"] is True
    (install,) = config["python"]["install"]
    assert install["method"] == "pip" and (ROOT / install["path"] / "pyproject.toml").is_file()
    assert set(install["extra_requirements"]) <= set(PROJECT["optional-dependencies"])
    lowest = re.search(r">=3\.(\d+)", PROJECT["requires-python"])
    assert lowest and int(config["build"]["tools"]["python"].removeprefix("3.")) >= int(lowest[1])
