"""Process trees: found, stopped, resumed and killed with all descendants."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpututor import processes
from gpututor.processes import descendants, kill_tree, resume, stop_tree
from tests.support.gradings import gone
from tests.support.timeouts import wait_for

FAMILY = """
import subprocess, sys, time
deep = int(sys.argv[1])
if deep:
    subprocess.Popen([sys.executable, __file__, str(deep - 1)], start_new_session=deep % 2 == 0)
print("up", flush=True)
time.sleep(600)
"""


def start_family(folder: Path, generations: int) -> subprocess.Popen[bytes]:
    script = folder / "family.py"
    script.write_text(FAMILY)
    return subprocess.Popen([sys.executable, str(script), str(generations)], stdout=subprocess.DEVNULL)


def test_trees_of_all_sessions_are_killed_even_if_stopped(tmp_path: Path) -> None:
    root = start_family(tmp_path, 4)
    wait_for(lambda: len(descendants(root.pid)) == 4)
    family = [root.pid, *descendants(root.pid)]

    kill_tree(root.pid)
    root.wait()

    wait_for(lambda: all(gone(pid) for pid in family))
    kill_tree(root.pid)
    root = start_family(tmp_path, 2)
    wait_for(lambda: len(descendants(root.pid)) == 2)
    stopped = stop_tree(root.pid)

    kill_tree(root.pid)
    root.wait()

    wait_for(lambda: all(gone(pid) for pid in stopped))


def state(pid: int) -> str:
    """Return the state letter: R, S, T for stopped …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_tree_is_stopped_and_resumed(tmp_path: Path) -> None:
    root = start_family(tmp_path, 3)

    def all_sleep() -> bool:
        # A process that is starting a child cannot be stopped.
        family = [root.pid, *descendants(root.pid)]
        return len(family) == 4 and all(state(pid) == "S" for pid in family)

    try:
        wait_for(all_sleep)
        stopped = stop_tree(root.pid)
        assert sorted(stopped) == sorted([root.pid, *descendants(root.pid)])
        wait_for(lambda: all(state(pid) == "T" for pid in stopped))

        resume(stopped)

        wait_for(lambda: all(state(pid) != "T" for pid in stopped))
    finally:
        kill_tree(root.pid)
        root.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("known", [True, False], ids=["with handles", "without"])
def test_a_reused_id_is_not_signalled(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    if not known:
        monkeypatch.setattr(processes, "_handle_of", lambda pid: None)
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        processes._signal_child(stranger.pid, stranger.pid, signal.SIGKILL)
        time.sleep(0.1)
        assert stranger.poll() is None

        processes._signal_child(stranger.pid, os.getpid(), signal.SIGKILL)
        assert stranger.wait(60) == -signal.SIGKILL
    finally:
        stranger.kill()
        stranger.wait()


WITHOUT_LISTS = """
import os, subprocess, sys
from gpututor import processes
processes._LISTS_CHILDREN = False
sys.platform = "darwin"
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
assert processes.descendants(os.getpid()) == [child.pid]
processes.kill_descendants()
print(child.wait(60))
"""


def test_ps_does_not_list_itself() -> None:
    """`ps` is a new process each time, so that the search would never end."""
    if shutil.which("ps") is None:
        pytest.skip("there is no ps")

    done = subprocess.run([sys.executable, "-c", WITHOUT_LISTS], capture_output=True, text=True, timeout=60)

    assert done.stdout == f"{-signal.SIGKILL}\n", done.stderr
