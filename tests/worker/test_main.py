"""The worker's start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpututor.judge.workers.pool import worker_environment

WARM = "import os; from gpututor.worker.__main__ import warm_up; warm_up(); print(len(os.listdir('/proc/self/task')))"


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_warm_worker_has_one_thread_so_that_it_may_fork(tmp_path: Path) -> None:
    environment = worker_environment(tmp_path)
    done = subprocess.run([sys.executable, "-c", WARM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
