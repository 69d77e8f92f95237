"""Ending a process ends everything that it ever started."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gpututor.processes import descendants, kill_tree

FAMILY = """
import subprocess, sys, time
deep = int(sys.argv[1])
if deep:
    subprocess.Popen([sys.executable, __file__, str(deep - 1)], start_new_session=deep % 2 == 0)
print("up", flush=True)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline


def start_family(folder: Path, generations: int) -> subprocess.Popen[bytes]:
    script = folder / "family.py"
    script.write_text(FAMILY)
    return subprocess.Popen([sys.executable, str(script), str(generations)], stdout=subprocess.DEVNULL)


def test_children_and_theirs_are_found(tmp_path: Path) -> None:
    root = start_family(tmp_path, 3)
    try:
        wait_for(lambda: len(descendants(root.pid)) == 3)
    finally:
        kill_tree(root.pid)
        root.wait()


def test_killing_a_tree_leaves_none_of_it_sessions_of_their_own_included(tmp_path: Path) -> None:
    root = start_family(tmp_path, 4)
    wait_for(lambda: len(descendants(root.pid)) == 4)
    family = [root.pid, *descendants(root.pid)]

    kill_tree(root.pid)
    root.wait()

    wait_for(lambda: not any(alive(pid) for pid in family))


def test_killing_what_is_gone_already_is_no_error(tmp_path: Path) -> None:
    root = subprocess.Popen([sys.executable, "-c", ""])
    root.wait()

    kill_tree(root.pid)
