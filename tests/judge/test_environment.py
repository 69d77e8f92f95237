"""Nothing of the learner's shell can be read in `/proc` from the processes of gpututor itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CLIENT = """
import os, subprocess, sys, time
from gpututor.grading.client import GradingClient
from gpututor.processes import descendants

client = GradingClient()
client.warm()
while client._judge.pid == 0:
    time.sleep(0.01)
keeper, judge = descendants(os.getpid())[:2]
print(keeper, judge, flush=True)
sys.stdin.readline()
subprocess.run(["sh", "-c", "echo $SHELL_SECRET"])
client.close()
"""


def environment_of(process: int | str) -> bytes:
    """Return what `/proc` shows; nothing where it may not be read at all."""
    try:
        return Path(f"/proc/{process}/environ").read_bytes()
    except PermissionError:
        return b""


AS_ORDINARY_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
"""Takes all of root's rights from a process, also where Python itself is in a folder of root's."""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize(
    "prefix", [pytest.param((), id="whoever runs it"), pytest.param(AS_ORDINARY_USER, id="a user")]
)
def test_no_process_of_gpututor_shows_the_learners_environment(prefix: tuple[str, ...]) -> None:
    if prefix and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system makes no user namespaces")
    environment = {**os.environ, "SHELL_SECRET": "canary"}
    command = [*prefix, sys.executable, "-c", CLIENT]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        pids = [client.pid, *map(int, client.stdout.readline().split())]
        shown = [environment_of(pid) for pid in pids]
        inherited, _ = client.communicate("go on\n")

    assert len(shown) == 3
    assert not any(b"canary" in environment or b"SHELL_SECRET" in environment for environment in shown)
    assert inherited == "canary\n"
