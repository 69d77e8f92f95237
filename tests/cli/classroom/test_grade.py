"""`gpututor classroom grade`: from the folder to the journal, and its output."""

from __future__ import annotations

import errno
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.jobs import Options
from gpututor.classroom.plan import GradingPlan
from gpututor.classroom.submissions import Class
from gpututor.classroom.work_queue import MOST_ATTEMPTS, Progress, WorkQueue
from gpututor.cli.classroom.grade import (
    MOST_LISTED,
    ClassProgress,
    GradingOutput,
    duration,
    failure_lines,
    progress_line,
    summary_of,
)
from gpututor.cli.main import main
from gpututor.errors import NotGradableHere
from gpututor.grading.report import Outcome
from tests.support.class_layouts import hand_in
from tests.support.classes import reports_of
from tests.support.fake_judges import Bench, job_of
from tests.support.tiny_course import RIGHT, write_course

SUBMISSIONS = {
    "kim": RIGHT,
    "lee": "def twice(number):\n    return 3 * number\n",
    "max": "def twice(number)\n    return number\n",
    "zoe": RIGHT,
}


def test_a_class_without_gradable_files_is_an_error_with_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course, submitted, out = write_course(tmp_path / "course", exercises=1), tmp_path / "in", tmp_path / "out"
    words = ["classroom", "grade", str(submitted), "--out", str(out), "--isolation", "process", "--device", "virtual"]
    words += ["--course", str(course)]
    submitted.mkdir()
    for student in ("kim", "lee"):
        with zipfile.ZipFile(submitted / f"{student}.zip", "w") as archive:
            archive.writestr("twice_1_1.py", SUBMISSIONS["kim"])
            archive.writestr("gpututor-pack.json", '{"course": "my_course"}')
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "'tiny'" in error
    assert "'my_course'" in error
    assert "--course DIR" in error
    assert not (out / "class.json").exists()

    for student in ("kim", "lee"):
        (submitted / f"{student}.zip").unlink()
        (submitted / student).mkdir()
        (submitted / student / "homework.py").write_text(SUBMISSIONS["kim"])
    assert main(words) == 2
    assert "--exercise" in capsys.readouterr().err

    rules = tmp_path / "rules.toml"
    rules.write_text("hidden = ['valeu']\n")
    assert main([*words, "--rules", str(rules)]) == 2
    assert "Did you mean 'value'?" in capsys.readouterr().err
    rules.write_text("hidden = ['value']\n")
    assert main([*words[:2], str(tmp_path / "nowhere"), *words[3:], "--rules", str(rules)]) == 2
    assert not (out / "classroom.toml").exists()  # a command with a mistake changes nothing

    (submitted / "kim" / "twice_1_1.py").write_bytes(b"\xff\xfe")
    assert main(words) == 4
    assert (out / "class.json").exists()


def test_a_class_is_graded_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    course, submitted, out = write_course(tmp_path / "course", exercises=1), tmp_path / "in", tmp_path / "out"
    hand_in(submitted, SUBMISSIONS)
    words = ["classroom", "grade", str(submitted), "--out", str(out), "--isolation", "process", "--judges", "1"]
    words += ["--device", "virtual", "--course", str(course)]

    assert main([*words, "--json"]) == 0
    said = capsys.readouterr()
    assert "class.secret" in said.err
    summary = json.loads(said.out)
    assert (summary["handed_in"], summary["gradings"], summary["done"], summary["already"]) == (4, 3, 3, 0)
    assert summary["outcomes"] == {"passed": 1, "failed": 1, "error": 1}
    reports = {submission.student: report for submission, _, report in reports_of(ClassFolder(out))}
    assert {student: report and report.outcome for student, report in reports.items()} == {
        "kim": Outcome.PASSED,
        "lee": Outcome.FAILED,
        "max": Outcome.ERROR,
        "zoe": Outcome.PASSED,
    }

    assert main(words) == 2
    assert "--resume" in capsys.readouterr().err
    assert main(["classroom", "grade", str(submitted), "--out", str(out), "--resume"]) == 0
    assert "3 are graded already" in capsys.readouterr().out

    (submitted / "zoe").rename(submitted / "zo\u202e")
    assert main(["classroom", "grade", str(submitted), "--out", str(out), "--resume"]) == 0
    assert "\n  zoe\n" in capsys.readouterr().out

    (out / "classroom.toml").write_text("decimals = 1\n")
    (tmp_path / "old.toml").write_text("decimals = 3\n")
    (tmp_path / "people.csv").write_text("id,section\nkim,A\n")
    for _ in range(2):
        rules = ["--rules", str(tmp_path / "old.toml"), "--roster", str(tmp_path / "people.csv")]
        assert main(["classroom", "grade", str(submitted), "--out", str(out), "--resume", *rules]) == 0
    assert (out / "classroom.toml").read_text() == "decimals = 3\n"
    assert (out / "roster.csv").read_text() == "id,section\nkim,A\n"
    assert [kept.read_text() for kept in (out / "replaced").iterdir()] == ["decimals = 1\n"]


OPTIONS = Options("auto", "", "process", "0.1.0", "2.9.0", "0" * 16, "", "")


def plan_of(folder: Path, count: int) -> tuple[GradingPlan, WorkQueue]:
    jobs = [job_of(folder, "lesson/one", str(number)) for number in range(count)]
    return GradingPlan(Class("course", "folders", (), (), ()), OPTIONS, jobs, 2, ()), WorkQueue(jobs)


@pytest.mark.parametrize("works", [True, False])
def test_the_first_judge_starts_during_the_probe_and_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    bench, made_at_probe = Bench(), []

    def probe() -> frozenset[str]:
        made_at_probe.append(bench.made)
        if not works:
            raise NotGradableHere("bubblewrap is missing", "")
        return frozenset(("cpu",))

    monkeypatch.setattr("gpututor.cli.classroom.grade.start_judge", lambda isolation: bench())
    monkeypatch.setattr("gpututor.cli.classroom.grade.working_in_bubblewrap", probe)
    course = write_course(tmp_path / "course", exercises=1)
    submitted = hand_in(tmp_path / "class", {student: f"# {student}\n" for student in ("ann", "kim", "lee")})
    words = ["classroom", "grade", str(submitted), "--out", str(tmp_path / "out"), "--course", str(course)]
    assert main([*words, "--device", "virtual", "--judges", "2"]) == (0 if works else NotGradableHere.exit_code)
    assert made_at_probe == [1]
    assert bench.made == (2 if works else 1)
    assert bench.closed >= bench.made
    assert len(bench.graded) == (3 if works else 0)
    if works:
        assert main([*words, "--resume"]) == 0
        assert bench.made == 2, "nothing is to be graded"


def test_the_progress_line_fits_its_width() -> None:
    assert progress_line(Progress(7)).startswith("0 of 7; ")
    outcomes = {Outcome.ERROR: 2, Outcome.PASSED: 9}
    progress = Progress(120, outcomes, abandoned=1, retried=3, elapsed_s=10.0, since_first_s=5.0)
    whole = "11 of 120, 1.1/s, 0:54 left: 9 passed, 2 error; 3 tried again; 1 not graded"
    assert progress_line(progress) == whole
    for width in range(20, len(whole)):
        line = progress_line(progress, width)
        assert len(line) <= width
        assert whole.startswith(line.removesuffix("…"))
    assert [duration(seconds) for seconds in (0, 7.4, 147, 3723)] == ["0:00", "0:07", "2:27", "1:02:03"]


def test_failures_are_listed_once_a_reason_with_the_resume_command(tmp_path: Path) -> None:
    plan, work = plan_of(tmp_path, MOST_LISTED + 2)
    while (attempt := work.claim()) is not None:
        if attempt.number == 1 and not work.progress.done:
            work.complete(attempt, Outcome.PASSED)
        else:
            work.fail(attempt, f"It \x1b[31mbroke {attempt.job.key.name}.\nAdvice.")
    stream = io.StringIO()
    GradingOutput(stream, "gpututor classroom --resume").print_end(plan, work, is_stopped=False)
    said = stream.getvalue()
    assert f"Graded 1 of {MOST_LISTED + 2}" in said
    assert said.count("! not graded: lesson/one") == MOST_LISTED
    assert f"{MOST_ATTEMPTS} attempts" in said
    assert "\x1b" not in said
    assert "… and 1 more" in said
    assert "gpututor classroom --resume" in said
    _, work = plan_of(tmp_path, 40)
    while (attempt := work.claim()) is not None:
        work.abandon(attempt, "No device is left.\nAdvice.")
    (line,) = failure_lines(work.failures)
    assert line.startswith("! not graded: lesson/one, submission ")
    assert line.endswith(", and 39 more: No device is left.")


def test_a_stopped_run_prints_how_to_resume_and_why_it_stopped(tmp_path: Path) -> None:
    plan, work = plan_of(tmp_path, 3)
    attempt = work.claim()
    assert attempt is not None
    work.complete(attempt, Outcome.FAILED)
    stream = io.StringIO()
    GradingOutput(stream, "go on").print_end(plan, work, is_stopped=True)
    assert "Graded 1 of 3" in stream.getvalue()
    assert stream.getvalue().endswith("\n  go on\n")
    summary = summary_of(tmp_path, plan, work, NotGradableHere("No device is left."))
    assert (summary["gradings"], summary["already"], summary["done"]) == (5, 2, 1)
    assert summary["stopped"] == "No device is left."
    assert summary_of(tmp_path, plan, work, KeyboardInterrupt())["stopped"] == "interrupted"
    plan, work = plan_of(tmp_path, 1)
    screen = GradingOutput(Gone(), "again")
    with ClassProgress(work, screen.stream):
        screen.notify("One line.")
    screen.print_end(plan, work, is_stopped=False)


class Gone(io.StringIO):
    """A terminal that was closed."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_changes_are_announced_with_the_gradings_that_they_need(tmp_path: Path) -> None:
    plan, _ = plan_of(tmp_path, 1)
    said = []
    for jobs in (plan.jobs, []):
        stream = io.StringIO()
        GradingOutput(stream, "").print_plan(replace(plan, jobs=jobs, changed="files of lesson/one"))
        said.append(stream.getvalue().splitlines()[0])
    assert "so gradings are repeated: files of lesson/one" in said[0]
    assert "the journal already has these gradings: files of lesson/one" in said[1]
    plan = replace(plan_of(tmp_path, 1)[0], grader_changed="0.1.0 aa → 0.1.0 bb")

    def notice(**values: Any) -> str:
        stream = io.StringIO()
        GradingOutput(stream, "").print_plan(replace(plan, **values))
        return stream.getvalue().splitlines()[0]

    start = "gpututor itself has changed since the last run (0.1.0 aa → 0.1.0 bb): "
    assert notice(anew=60) == f"{start}60 gradings must be repeated."
    assert notice(anew=1) == f"{start}1 grading must be repeated."
    assert notice(jobs=[], already=3) == f"{start}the journal already has the gradings of this version."
    assert notice(already=0).startswith("1 grading to do"), "nothing was graded before"


@pytest.mark.parametrize(
    ("user", "isolation", "warnings"), [(0, "process", 3), (1000, "process", 2), (0, "bubblewrap", 1)]
)
def test_process_isolation_prints_a_warning_and_another_for_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, isolation: str, warnings: int
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    plan, _ = plan_of(tmp_path, 1)
    stream = io.StringIO()
    GradingOutput(stream, "").print_plan(replace(plan, options=replace(OPTIONS, isolation=isolation)))
    said = stream.getvalue()
    assert ("class.secret" in said, "root" in said) == (warnings > 1, warnings > 2)
