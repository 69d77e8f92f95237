"""Run the tests with several versions of Python and PyTorch, and print a table for the documentation.

    python tools/matrix.py                                    say what would run, and how long it takes
    python tools/matrix.py --run --python 3.11 --torch 2.13   run the quick tests in one environment
    python tools/matrix.py --run --tests tests/hardware       run some tests in every environment

Each combination gets an environment in `--folder`, which later runs reuse. Python comes from the path or from pyenv.
PyTorch is the build for the CPU; on Linux, some versions exist only with CUDA's libraries, and need `--cuda`. Options
after `--` go to pip, such as an index.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TORCHES = ("2.9", "2.10", "2.11", "2.12", "2.13", "2.14")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
INSTALLATION_MIN, QUICK_TESTS_MIN = 2, 12
"""Minutes on two cores to install one environment, and to run the quick tests in it."""


@dataclass(frozen=True)
class Row:
    """Result of one combination."""

    python: str
    torch: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""
    """Reason why nothing ran, or the names of failed tests."""

    @property
    def line(self) -> str:
        ran = self.passed + self.failed
        counts = [str(count) if ran else "" for count in (self.passed, self.failed, self.skipped)]
        return f"| {' | '.join([self.python, self.torch, *counts, self.note])} |".replace("  ", " ")


def find_python(version: str) -> str | None:
    """Return the executable of that Python, from the path or pyenv's newest; None without one."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    pyenvs = sorted(root.glob(f"versions/{version}.*/bin/python"), key=lambda path: path.stat().st_mtime)
    for candidate in (shutil.which(f"python{version}"), *map(str, reversed(pyenvs))):
        if candidate and _prints_version(candidate, version):
            return candidate
    return None


def _prints_version(python: str, version: str) -> bool:
    """Return True if it starts as that version: a shim of pyenv may point to a missing Python."""
    code = "import sys, venv; print('.'.join(map(str, sys.version_info[:2])))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.strip() == version


def choose_build(report: str, *, cuda: bool, on_linux: bool) -> tuple[str, str]:
    """Return (version, "") from pip's report, or ("", reason) if the version must not be installed."""
    (chosen,) = json.loads(report)["install"]
    version = chosen["metadata"]["version"]
    is_for_cpu = "+cpu" in unquote(chosen["download_info"]["url"]) or not on_linux
    return (version, "") if is_for_cpu or cuda else ("", f"pip gets {version} only with CUDA's libraries")


def counts_in(junit: Path) -> tuple[int, int, int, list[str]]:
    """Return the numbers of passed, failed and skipped tests, and the names of failed tests."""
    passed = skipped = 0
    failed = []
    for case in ElementTree.parse(junit).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed.append(case.attrib["name"])
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return passed, len(failed), skipped, failed


def run_combination(python: str, torch: str, options: argparse.Namespace) -> Row:
    """Make the environment, and run the tests in it."""
    interpreter = find_python(python)
    if interpreter is None:
        return Row(python, torch, note=f"there is no Python {python} on this machine")
    environment = options.folder / f"python{python}-torch{torch}"
    bin_folder = environment / "bin"
    if not (bin_folder / "python").exists():
        subprocess.run([interpreter, "-m", "venv", environment], check=True)
    pip = [bin_folder / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *options.pip]
    asked = [*pip, "--dry-run", "--ignore-installed", "--no-deps", "--report", "-", f"torch=={torch}.*"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    if answer.returncode:
        return Row(python, torch, note="pip has no build of it")
    version, reason = choose_build(answer.stdout, cuda=options.cuda, on_linux=sys.platform == "linux")
    if not version:
        return Row(python, torch, note=reason)
    constraints = environment / "constraints.txt"
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    constraints.write_text("\n".join(pin for pin in pins if not pin.startswith(("torch==", "triton=="))) + "\n")
    print(f"Python {python}, torch {version}: installing", flush=True)
    installed = subprocess.run([*pip, "-c", constraints, f"torch=={version}", "-e", f"{ROOT}[test]"], check=False)
    if installed.returncode:
        return Row(python, version, note="pip could not install it")
    print(f"Python {python}, torch {version}: running {' '.join(options.tests)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        junit = Path(folder) / "results.xml"
        pytest = [bin_folder / "python", "-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", "not long"]
        command = [*pytest, "-p", "no:cacheprovider", f"--junitxml={junit}", *options.tests]
        subprocess.run(command, cwd=ROOT, check=False)
        if not junit.exists():
            return Row(python, version, failed=1, note="pytest could not start")
        passed, failures, skipped, names = counts_in(junit)
    return Row(python, version, passed, failures, skipped, ", ".join(names))


def plan(options: argparse.Namespace) -> str:
    """Return what would run, and how long it takes."""
    here = [python for python in options.python if find_python(python)]
    missing = [python for python in options.python if python not in here]
    count = len(here) * len(options.torch)
    minutes = count * (INSTALLATION_MIN + QUICK_TESTS_MIN)
    lines = [
        f"Python: {', '.join(here) or 'none'}" + (f" (not on this machine: {', '.join(missing)})" if missing else ""),
        f"torch: {', '.join(options.torch)}",
        f"Up to {count} environments below {options.folder}, each of 1 GB, with 250 MB to download.",
        f"Installing one takes about {INSTALLATION_MIN} minutes, and the quick tests {QUICK_TESTS_MIN} on two cores:",
        f"{minutes / 60:.1f} hours for all. --tests, --python and --torch choose fewer; --run begins.",
    ]
    return "\n".join(lines)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    versions = {"type": lambda word: tuple(word.split(",")), "metavar": "VERSION[,VERSION…]"}
    parser.add_argument("--python", default=PYTHONS, help=f"default: {','.join(PYTHONS)}", **versions)
    parser.add_argument("--torch", default=TORCHES, help=f"default: {','.join(TORCHES)}", **versions)
    parser.add_argument("--tests", nargs="+", default=["tests"], metavar="PATTERN", help="files or folders for pytest")
    parser.add_argument("--folder", type=Path, default=ROOT / ".matrix", help="folder of the environments")
    parser.add_argument("--cuda", action="store_true", help="also install builds with CUDA's libraries (5 GB each)")
    parser.add_argument("--run", action="store_true", help="make the environments and run the tests")
    ours = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:ours])
    options.pip = words[ours + 1 :] or ["--extra-index-url", CPU_INDEX]
    return options


def main(words: Sequence[str]) -> int:
    """Return 1 if a test failed or nothing ran."""
    options = parse(words)
    print(plan(options), flush=True)
    if not options.run:
        return 0
    rows = []
    for torch in options.torch:
        for python in options.python:
            rows.append(run_combination(python, torch, options))
    print("\n| Python | torch | passed | failed | skipped | |\n| --- | --- | --- | --- | --- | --- |")
    print("\n".join(row.line for row in rows))
    return 1 if any(row.failed for row in rows) or not any(row.passed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
