"""No call ends the process: each is run in a child, and gives the right result or a refusal in words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[4]
_SECONDS = 120


def _children() -> tuple[list[str], list[str]]:
    """The calls that were run, and what was wrong: a child that dies names its call, and the next one goes on after."""
    ran: list[str] = []
    wrong: list[str] = []
    number = 0
    while True:
        command = [sys.executable, "-m", "tests.unit.virtual.face.hostile.run", str(number)]
        child = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=_SECONDS, check=False)
        started = ""
        for line in child.stdout.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "start":
                started = rest
                ran.append(rest.split(" ", 1)[1])
            elif kind == "end":
                if rest:
                    wrong.append(f"{started}: {rest[:300]}")
                started = ""
            elif kind == "done":
                return ran, wrong
        assert started, child.stderr[-2000:]
        wrong.append(f"{started}: the process died with {child.returncode}: {child.stderr[-300:]}")
        number = int(started.split(" ", 1)[0]) + 1


def test_every_refused_and_every_hostile_call_is_answered_in_words() -> None:
    ran, wrong = _children()
    assert not wrong, "\n".join(wrong)
    assert len(ran) == len(set(ran)) > 250
    assert "refused torch.cuda.Stream" in ran
    assert "views_as_strided_beyond" in ran
