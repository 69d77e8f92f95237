"""Documentation runs: Python blocks, files, and commands with what they print.

A block of Python that begins with `# file: NAME` is written to that file. A `console` block's lines that begin with
`$ ` are run next to the files above it. Its other lines must be in the output, where `…` stands for anything. A line
with nothing but `…` replaces the lines that were left out. The other lines follow each other as they were printed.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.parameters import mostly_long

PAGES = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("virtual-gpu.md", "trace.md", "real-devices.md"))]
QUICK = [page for page in PAGES if page.name == "README.md"]
"""The others take up to half a minute each."""
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAMS = {
    "python": [sys.executable],
    "pytest": [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
    "gpututor": [sys.executable, "-m", "gpututor"],
}


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return kind and text of each block of a page that is to be run."""
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def ended(command: list[str], folder: Path) -> str:
    """Run a command, which must succeed, and return its output, both streams together."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}"
    return done.stdout


def commands(block: str) -> list[list[str]]:
    """Return each command of a block with the lines that it must print."""
    return [part.splitlines() for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]


def passages(lines: list[str]) -> list[list[str]]:
    """Return the lines between those that are only `…`; without such lines, each line by itself."""
    if "…" not in lines:
        return [[line] for line in lines]
    return [part.splitlines() for part in re.split(r"^…$\n?", "\n".join(lines), flags=re.MULTILINE) if part]


def as_printed(lines: list[str], *, whole: bool) -> re.Pattern[str]:
    """Return a pattern for the lines in an output; `whole`: no other line may be among them."""
    each = [".*".join(map(re.escape, line.split("…"))) for line in lines]
    return re.compile("".join(rf"^{line} *\n" for line in each) if whole else each[0], re.MULTILINE)


def test_pages_have_blocks_whose_adjacent_lines_are_printed_together() -> None:
    printed = "one\ntwo\n\nthree\nfour\n"
    assert commands("$ a b\none\n…\nfour\n$ c\n") == [["a b", "one", "…", "four"], ["c"]]
    assert passages(["one", "two", "…", "four"]) == [["one", "two"], ["four"]]
    assert passages(["one", "four"]) == [["one"], ["four"]]
    assert as_printed(["o…e", "two"], whole=True).search(printed)
    assert not as_printed(["one", "three"], whole=True).search(printed)
    assert not as_printed(["on"], whole=True).search(printed)
    assert as_printed(["on"], whole=False).search(printed)
    for page in PAGES:
        assert {"python", "console"} <= {kind for kind, _ in blocks(page)}
    from gpututor.hardware.gpus import gpu_names
    from gpututor.hardware.packages import TORCH

    text = PAGES[1].read_text(encoding="utf-8")
    assert f"tested with torch {TORCH.versions}." in text
    assert f"{', '.join(gpu_names())}." in text.replace("\n", " ")


@pytest.mark.parametrize("page", mostly_long(PAGES, QUICK), ids=lambda page: page.name)
def test_every_block_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for kind, text in blocks(page):
        if kind == "python":
            named = re.match(r"# file: (\S+)\n", text)
            (tmp_path / (named.group(1) if named else "block.py")).write_text(text)
            if not named:
                ended([sys.executable, "block.py"], tmp_path)
            continue
        for command, *lines in commands(text):
            program, *arguments = shlex.split(command)
            printed = ended([*_PROGRAMS[program], *arguments], tmp_path)
            at = 0
            for passage in passages(lines):
                match = as_printed(passage, whole="…" in lines).search(printed, at)
                assert match, f"{page.name} promises, in this place, {passage}:\n{printed}"
                at = match.end() if "…" in lines else 0
