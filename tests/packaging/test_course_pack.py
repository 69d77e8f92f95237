"""A course in a Python package: its wheel, built and installed as the guide for authors shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.tiny_course import FILES, write_course

GUIDE = (ROOT / "docs" / "authors" / "README.md").read_text(encoding="utf-8")
PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "my-package"
version = "1.0"
"""


def ended(folder: Path, *words: str, **variables: str) -> str:
    """Run a module of this Python, which must succeed; return its output."""
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_pack_installs_as_the_guide_shows_with_its_texts(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    tables = [text for text in re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL) if "first_steps" in text]
    assert len(tables) == 2
    source, site = tmp_path / "source", tmp_path / "site"
    write_course(source / "my_package" / "first_steps")
    (source / "my_package" / "__init__.py").write_text("")
    (source / "pyproject.toml").write_text("\n".join([PROJECT, *tables]))
    ended(source, "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "-w", "dist", ".")
    (wheel,) = (source / "dist").glob("*.whl")
    ended(tmp_path, "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site), str(wheel))
    installed = {"PYTHONPATH": os.pathsep.join((str(site), str(ROOT))), "GPUTUTOR_HOME": str(tmp_path / "home")}
    assert "1.2 twice_1_2  Twice 2" in ended(tmp_path, "gpututor", "list", "--course", "first_steps", **installed)
    assert "Look at the name." in ended(tmp_path, "gpututor", "hint", "1.1", "--course", "first_steps", **installed)
    (exercise,) = site.glob("my_package/first_steps/*/01_*")
    names = {path.relative_to(exercise).as_posix() for path in exercise.rglob("*") if path.suffix in (".py", ".md")}
    assert names == set(FILES)
