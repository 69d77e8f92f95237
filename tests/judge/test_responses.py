"""Answers of ranks: a step of data-parallel training, the ways to get it wrong, and forged answers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpututor.checks import processes
from gpututor.course.loader import load_exercise
from gpututor.errors import CourseError, NotGradableHere
from gpututor.grading.report import Outcome, Report
from gpututor.judge.responses import rank_fields, read_ranks
from gpututor.protocol.frames import Frame, FrameError
from gpututor.protocol.messages import Sizes
from tests.support.gradings import Grade, failure
from tests.support.rank_exercise import CHECKS, FILES, GIVEN, MANIFEST, RIGHT
from tests.support.tiny_course import write_files


@pytest.fixture(autouse=True)
def ranks(exercise_folder: Path) -> None:
    write_files(exercise_folder, FILES)


def failed(report: Report) -> tuple[Outcome, str, str]:
    check, got, _ = failure(report)
    return report.outcome, check, got


def wrong(old: str, new: str) -> str:
    assert old in RIGHT
    return RIGHT.replace(old, new)


def test_a_right_step_passes_and_a_file_that_never_loads_fails(grade: Grade) -> None:
    report = grade(RIGHT)
    assert report.outcome is Outcome.PASSED, (report.first_failure, report.reason)
    outcome, check, got = failed(grade("import torchh\n"))
    assert (outcome, check) == (Outcome.ERROR, "loads")
    assert "'torchh' (in every rank)" in got


def test_a_fault_of_build_in_a_rank_is_the_authors(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "solution.py").write_text(RIGHT)
    (exercise_folder / "given.py").write_text(f"{GIVEN}\n\ndef build(drawn, device):\n    return drawn['y']\n")
    report = grade(RIGHT)
    assert report.outcome is Outcome.INTERNAL_ERROR
    assert report.reason.startswith(f"{exercise_folder / 'given.py'}:9: KeyError: 'y'")


@pytest.mark.long
def test_each_scenario_has_its_own_ranks_and_files(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "exercise.toml").write_text(
        MANIFEST.replace("[limits]", '[[scenario]]\nname = "three GPUs"\ngpus = 3\n[limits]')
    )
    wanted = "files({'model.pt': Wanted('torch', like=lambda x: {'weight': one(x)}, devices='cpu')})"
    (exercise_folder / "checks.py").write_text(
        CHECKS.replace("parity, ", "Wanted, files, parity, ").replace("checks = [", f"checks = [{wanted}, ")
    )
    saved = (
        "    if rank == 0:\n        torch.save({'weight': model.weight.detach().cpu()}, 'model.pt')\n    dist.destroy"
    )
    report = grade(wrong("    dist.destroy", saved))
    assert report.outcome is Outcome.PASSED, (report.first_failure, report.reason)
    assert [run.scenario for run in report.runs] == ["two GPUs", "three GPUs"]
    outcome, check, _ = failed(grade(RIGHT))
    assert (outcome, check) == (Outcome.FAILED, "files")


def test_ranks_that_train_alone_differ_or_leave_their_group_fail(grade: Grade) -> None:
    alone = wrong("torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])", "model")
    report = grade(alone)
    verdicts = {verdict.check: verdict for verdict in report.verdicts}
    assert report.outcome is Outcome.FAILED
    assert "rank 0" in verdicts["processes"].got
    assert "relative error" in verdicts["parity"].got
    differing = wrong(
        "    dist.destroy", "    with torch.no_grad():\n        model.weight += rank * 1e-7\n    dist.destroy"
    )
    outcome, check, got = failed(grade(differing))
    assert (outcome, check) == (Outcome.FAILED, "processes")
    assert "(3 of 3 elements)" in got
    assert "process group" in failed(grade(wrong("    dist.destroy_process_group()\n", "")))[2]


@pytest.mark.parametrize(
    ("end", "outcome", "words"),
    [
        ("raise ValueError('no')", Outcome.ERROR, "line 16"),
        ("os._exit(3)", Outcome.CRASHED, "exit status 3"),
        ("os.kill(os.getpid(), 9)", Outcome.CRASHED, "SIGKILL"),
        ("os.kill(os.getpid(), 40)", Outcome.CRASHED, "signal 40"),
    ],
)
def test_a_rank_that_fails_is_named(grade: Grade, end: str, outcome: Outcome, words: str) -> None:
    ended = wrong("    together(mine)", f"    if rank == 1:\n        import os\n        {end}\n    together(mine)")
    ends, check, got = failed(grade(ended))
    assert (ends, check) == (outcome, "runs")
    assert "rank 1 of 2" in got
    assert words in got


@pytest.mark.long
def test_a_hanging_rank_is_named_with_its_line(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "exercise.toml").write_text(MANIFEST.replace("wall_s = 40", "wall_s = 12"))
    hanging = wrong(
        "    together(mine)", "    if rank == 0:\n        dist.barrier()\n        dist.barrier()\n    together(mine)"
    )
    outcome, check, got = failed(grade(hanging))
    assert (outcome, check) == (Outcome.TIMEOUT, "runs"), got
    assert "rank 0" in got
    assert "at line" in got


@pytest.mark.long
def test_drawing_inputs_does_not_count_as_the_ranks_time(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "exercise.toml").write_text(MANIFEST.replace("wall_s = 40", "wall_s = 16"))
    slow = GIVEN.replace("    return {", "    time.sleep(9)\n    return {", 1)
    (exercise_folder / "given.py").write_text(f"import time\n\n{slow}")
    assert grade(RIGHT).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"ranks": 3, "buffers_of": []},
        {"ranks": [{}], "buffers_of": [0]},
        {"ranks": [{}, 1], "buffers_of": [0, 0]},
        {"ranks": [{}, {}], "buffers_of": [0, -1]},
        {"ranks": [{}, {}], "buffers_of": [0, True]},
        {"ranks": [{}, {}], "buffers_of": [0, 2]},
        {"ranks": [{}, {}], "buffers_of": [1, 0]},
        {"ranks": [{}, {}], "buffers_of": [1, 0], "files": ["passwd"]},
        {"ranks": [{}, {}], "buffers_of": [0, 0], "files": ["a", "a"]},
        {"ranks": [{}, {}], "buffers_of": [0, 0], "folder": {"a": 1}},
    ],
)
def test_forged_answers_of_ranks_are_refused(header: dict[str, object]) -> None:
    frame = Frame({"event": "returned", **header}, (b"a",))
    with pytest.raises(FrameError):
        read_ranks(frame, {}, "", Sizes(), ("a",), 2)


def test_an_empty_range_is_refused(exercise_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CourseError, match="allreduce"):
        processes({"allreduce": (3, 2)})
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(NotGradableHere):
        rank_fields(load_exercise(exercise_folder))
