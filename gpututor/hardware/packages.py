"""Versions of PyTorch, and of optional packages: extras of gpututor that some exercises need."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from gpututor.errors import NotGradableHere, TutorError


@dataclass(frozen=True)
class Package:
    """A package with a range of versions. A version is compared by its first two numbers."""

    title: str
    oldest: str
    newest: str

    @property
    def versions(self) -> str:
        """Text like `3.6 to 3.7`."""
        return self.oldest if self.oldest == self.newest else f"{self.oldest} to {self.newest}"

    def works_in(self, version: str) -> bool:
        """Return True for a version, such as `3.7.1+git`, in the range."""
        return _numbers(self.oldest) <= _numbers(version) <= _numbers(self.newest)


class PackageNotSupported(TutorError):
    """An optional package has a version outside the range, or lacks something that gpututor is built on."""


TORCH = Package("PyTorch", "2.9", "2.14")
"""The tested versions; docs/virtual-gpu.md has the results."""
TORCH_REQUIREMENT = "torch>=2.9,<2.15"
"""The versions that pip may install, as in pyproject.toml: 2.15.0 returns wrong results."""
PACKAGES = {"triton": Package("Triton", "3.6", "3.8")}


def install_command(name: str) -> str:
    """Return the command that installs a package in a version that works."""
    return f'pip install "gpututor[{name}]"'


def require_package(name: str) -> None:
    """Raise `NotGradableHere` if the package `name` is missing or has an unsupported version."""
    package = PACKAGES[name]
    advice = f"Run `{install_command(name)}` in gpututor's environment, then grade again."
    if importlib.util.find_spec(name) is None:
        raise NotGradableHere(f"This exercise needs {package.title}, which is not installed.", advice)
    from importlib import metadata  # imported late: most commands read no version

    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return
    if not package.works_in(version):
        raise NotGradableHere(
            f"This exercise needs {package.title} {package.versions}, but {version} is installed.", advice
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")[:2])
