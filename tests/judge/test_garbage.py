"""A judge that grades thousands keeps nothing of them."""

from __future__ import annotations

import gc
import io
import sys
import weakref
from pathlib import Path
from types import ModuleType

import pytest

from gpututor.grading.events import GradeRequest
from gpututor.judge import __main__ as judge
from gpututor.judge.isolation import Process
from gpututor.judge.workers.pool import SpawnedWorkers


class Enough(Exception):
    """Ends a judge that would go on for ever."""


class Circle:
    """Refers to itself: only the collector can tell that nobody needs it."""

    def __init__(self) -> None:
        self.itself = self


def test_what_one_grading_leaves_is_collected_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = judge.Server(io.BytesIO(), io.BytesIO(), SpawnedWorkers(Process()))
    left: list[weakref.ref[Circle]] = []
    were_there: list[bool] = []

    def grade(number: int, request: GradeRequest) -> None:
        were_there.extend(one() is not None for one in left)
        if number == 2:
            raise Enough
        left.append(weakref.ref(Circle()))

    monkeypatch.setattr(server, "_grade", grade)
    monkeypatch.setattr(server, "_listen", lambda: None)
    monkeypatch.setattr(server._pool, "warm", lambda: None)
    monkeypatch.setattr(judge, "adopt_orphans", lambda: None)
    monkeypatch.setattr(judge, "sweep_scratch", lambda: None)
    monkeypatch.setitem(sys.modules, "gpututor.judge.grader", ModuleType("judge"))  # with it comes torch
    monkeypatch.setattr(gc, "freeze", lambda: None)  # this process's objects are not the judge's
    for number in (1, 2):
        server._queue.put((number, GradeRequest(str(tmp_path), "", "a.py")))
    gc.disable()
    try:
        with pytest.raises(Enough):
            server.serve()
    finally:
        gc.enable()
    assert were_there == [False]
