"""A kill during a write loses at most the attempt in flight."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from gpututor.progress.store import ProgressStore
from tests.support import ROOT

WRITER = """
import sys
from pathlib import Path
from gpututor.progress.store import ProgressStore
from tests.support.reports import report
store = ProgressStore(Path(sys.argv[1]))
start = int(sys.argv[2])
for number in range(start, start + 100_000):
    store.record(report(seed=number))
    print(number, flush=True)
"""


def kill_writers(path: Path, kills: int) -> None:
    """Kill writers of one file in turn; acknowledged attempts must survive."""
    moments = random.Random(20_250_101)
    acknowledged: list[int] = []
    for _ in range(kills):
        start = acknowledged[-1] + 1 if acknowledged else 0
        command = [sys.executable, "-c", WRITER, str(path), str(start)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        assert writer.stdout is not None
        for _ in range(moments.randrange(0, 6)):
            writer.stdout.readline()
        try:
            writer.wait(moments.uniform(0, 0.02))  # so that the kill may fall anywhere in a write
        except subprocess.TimeoutExpired:
            writer.kill()
        rest, _ = writer.communicate()
        lines = rest.decode().split("\n")[:-1]
        reopened = ProgressStore(path)
        assert reopened.notice is None
        kept = [attempt.report.environment.seed for attempt in reopened.attempts("tensors/born")]
        reopened.close()
        acknowledged = check(acknowledged, [int(line) for line in lines], kept, start)


def check(before: list[int], acknowledged: list[int], kept: list[int], start: int) -> list[int]:
    """Check that attempts form a gapless run, with at most one more than acknowledged."""
    assert kept[: len(before)] == before
    new = kept[len(before) :]
    assert new == list(range(start, start + len(new)))
    if acknowledged:
        assert acknowledged[-1] in new
        assert new[-1] - acknowledged[-1] in (0, 1)
    return kept


def test_every_acknowledged_attempt_survives_a_kill(tmp_path: Path) -> None:
    kill_writers(tmp_path / "progress.sqlite3", kills=6)
