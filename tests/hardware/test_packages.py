"""Optional packages: missing and outdated ones are named, with the command that helps."""

from __future__ import annotations

import importlib.util
import tomllib
from importlib import metadata
from typing import Any

import pytest

from gpututor.errors import NotGradableHere
from gpututor.hardware.packages import PACKAGES, install_command, require_package
from tests.support import ROOT


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes Triton have a version, or be missing."""

    def set_version(version: str | None) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: version)
        monkeypatch.setattr(metadata, "version", lambda name: version)

    return set_version


def test_a_version_in_the_range_will_do(installed: Any) -> None:
    for version in ("3.6.0", "3.7.1", "3.7.1+git20"):
        installed(version)
        require_package("triton")


@pytest.mark.parametrize("version", [None, "2.1.0", "3.5.1", "3.9.0", "4.0"])
def test_anything_else_is_not_gradable_with_the_command_that_helps(version: str | None, installed: Any) -> None:
    installed(version)
    with pytest.raises(NotGradableHere, match="Triton") as caught:
        require_package("triton")
    assert 'pip install "gpututor[triton]"' in caught.value.advice
    assert (version or "not installed") in caught.value.title


def test_each_package_is_an_extra_with_the_same_range() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name, package in PACKAGES.items():
        assert f"gpututor[{name}]" in install_command(name)
        (requirement,) = extras[name]
        assert requirement.startswith(f"{name}>={package.oldest},")
        assert not package.works_in(requirement.partition("<")[2].partition(";")[0])
