"""Exercises that run in several processes: a step of data-parallel training, and the ways to get it wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpututor.checks import processes
from gpututor.course.loader import load_exercise
from gpututor.errors import CourseError, NotGradableHere
from gpututor.grading.client import GradingClient
from gpututor.grading.report import Outcome, Report
from gpututor.judge.responses import rank_fields, read_ranks
from gpututor.protocol.frames import Frame, FrameError
from gpututor.protocol.messages import Sizes
from tests.support.gradings import Grade
from tests.support.rank_exercise import CHECKS, GIVEN, MANIFEST, RIGHT


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GradingClient]:
    """Many submissions, or two workers for one: with a fork server they take a tenth of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUTUTOR_HOME", str(tmp_path_factory.mktemp("home")))
        client = GradingClient(workers="fork server" if sys.platform == "linux" else "spare")
        yield client
        client.close()


@pytest.fixture(autouse=True)
def _exercise(exercise_folder: Path) -> None:
    (exercise_folder / "exercise.toml").write_text(MANIFEST)
    (exercise_folder / "given.py").write_text(GIVEN)
    (exercise_folder / "checks.py").write_text(CHECKS)


def wrong(old: str, new: str) -> str:
    assert old in RIGHT
    return RIGHT.replace(old, new)


def told(report: Report) -> tuple[Outcome, str, str]:
    first = report.first_failure
    assert first is not None, report
    return report.outcome, first.check, first.got


def test_a_right_step_passes(grade: Grade) -> None:
    report = grade(RIGHT)
    assert report.outcome is Outcome.PASSED, (report.first_failure, report.reason)


def test_a_fault_of_build_in_a_rank_is_the_authors(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "solution.py").write_text(RIGHT)
    (exercise_folder / "given.py").write_text(f"{GIVEN}\n\ndef build(drawn, device):\n    return drawn['y']\n")

    report = grade(RIGHT)

    assert report.outcome is Outcome.INTERNAL_ERROR
    assert report.reason.startswith(f"{exercise_folder / 'given.py'}:9: KeyError: 'y'")


@pytest.mark.long
def test_each_scenario_has_ranks_of_its_own_and_a_file_of_one_rank_is_the_calls(
    grade: Grade, exercise_folder: Path
) -> None:
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
    outcome, check, got = told(grade(RIGHT))
    assert (outcome, check) == (Outcome.FAILED, "files")
    assert "was written" in got


def test_ranks_that_train_alone_are_told(grade: Grade) -> None:
    alone = wrong("torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])", "model")
    report = grade(alone)
    verdicts = {verdict.check: verdict for verdict in report.verdicts}
    assert report.outcome is Outcome.FAILED
    assert "rank 0 did no collective on its device" in verdicts["processes"].got
    assert "relative error" in verdicts["parity"].got


def test_parameters_that_differ_and_groups_that_stay_are_told(grade: Grade) -> None:
    differing = wrong(
        "    dist.destroy", "    with torch.no_grad():\n        model.weight += rank * 1e-7\n    dist.destroy"
    )
    outcome, check, got = told(grade(differing))
    assert (outcome, check) == (Outcome.FAILED, "processes")
    assert "differs between rank 0 and rank 1 (3 of 3 elements)" in got
    assert "rank 0 did not end its process group" in told(grade(wrong("    dist.destroy_process_group()\n", "")))[2]


def test_an_error_names_its_rank_and_its_line(grade: Grade) -> None:
    broken = wrong("    together(mine)", "    if rank == 1:\n        raise ValueError('no')\n    together(mine)")
    outcome, check, got = told(grade(broken))
    assert (outcome, check) == (Outcome.ERROR, "runs")
    assert got.startswith("ValueError: no (in rank 1 of 2), at line 15")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("os._exit(3)", "ended, with exit status 3"),
        ("os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
        ("os.kill(os.getpid(), 40)", "was ended by signal 40"),
    ],
)
def test_a_rank_that_ends_is_named(grade: Grade, end: str, words: str) -> None:
    ended = wrong("    together(mine)", f"    if rank == 1:\n        import os\n        {end}\n    together(mine)")
    outcome, check, got = told(grade(ended))
    assert (outcome, check) == (Outcome.CRASHED, "runs")
    assert f"rank 1 of 2 {words}" in got


@pytest.mark.long
def test_a_rank_that_waits_for_ever_is_named_with_its_line(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "exercise.toml").write_text(MANIFEST.replace("wall_s = 40", "wall_s = 12"))
    hanging = wrong(
        "    together(mine)", "    if rank == 0:\n        dist.barrier()\n        dist.barrier()\n    together(mine)"
    )
    outcome, check, got = told(grade(hanging))
    assert (outcome, check) == (Outcome.TIMEOUT, "runs"), got
    assert "rank 0" in got
    assert "at line" in got


@pytest.mark.long
def test_what_the_judge_takes_to_draw_inputs_is_not_the_ranks_time(grade: Grade, exercise_folder: Path) -> None:
    (exercise_folder / "exercise.toml").write_text(MANIFEST.replace("wall_s = 40", "wall_s = 16"))
    (exercise_folder / "given.py").write_text(GIVEN.replace("    return {", "    time.sleep(9)\n    return {", 1))
    with (exercise_folder / "given.py").open("a") as given:
        given.write("\n\nimport time\n")

    assert grade(RIGHT).outcome is Outcome.PASSED


def test_a_file_that_does_not_load_is_told_as_ever(grade: Grade) -> None:
    outcome, check, got = told(grade("import torchh\n"))
    assert (outcome, check) == (Outcome.ERROR, "loads")
    assert "No module named 'torchh' (in every rank), at line 1" in got


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
def test_what_no_ranks_answered_is_refused(header: dict[str, object]) -> None:
    frame = Frame({"event": "returned", **header}, (b"a",))
    with pytest.raises(FrameError):
        read_ranks(frame, {}, "", Sizes(), ("a",), 2)


def test_a_range_that_is_none_is_refused() -> None:
    with pytest.raises(CourseError, match="'allreduce' 3 to 2 times"):
        processes({"allreduce": (3, 2)})


def test_elsewhere_than_on_linux_nothing_is_forked(exercise_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(NotGradableHere, match="on Linux only"):
        rank_fields(load_exercise(exercise_folder))
