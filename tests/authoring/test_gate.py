"""The gate: a skeleton is green, and each mistake is reported with its file, line and advice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpututor.authoring import pool
from gpututor.authoring.lint import named_check
from gpututor.authoring.pool import JudgeJob, JudgePool, do_all
from gpututor.authoring.trials import first_trial, trials_on
from gpututor.authoring.verify import Subject, Verifier, example_problems, targets_of
from gpututor.course.loader import load_course
from tests.support.skeletons import Change, run_gate, skeleton, titles

pytestmark = pytest.mark.long
"""The gate takes a minute for all exercises below. `make test` runs it in test_scaffold and test_grading."""

PRODUCT = "batch.to(device) @ weights"
WAITING = Change(
    "solution.py",
    f"    return {PRODUCT}\n",
    f"    product = {PRODUCT}\n    torch.cuda.synchronize()\n    return product\n",
)
FIRST = "import torch\ndef first(batch, weights, device):\n    return "
SEVERAL = "def several(batch, weights, device):\n    return "
OWN_CHECK = "Check('own', lambda _: 'It is so', lambda run: Finding('a', 'b') if 'abs' in run.source else None),"
EXCUSE = '[[excused_mutant]]\nchange = "{}"\nreason = "It is here to be excused."\n'

MISTAKES: dict[str, tuple[tuple[Change, ...], tuple[str, ...]]] = {
    "several": (
        (
            WAITING,
            Change("starter.py", "raise NotImplementedError", f"return {PRODUCT}"),
            Change("wrong/signs_lost.py", ".abs()", ""),
            Change("wrong/transposed.py", "fails: structure", "fails: placement"),
            Change("right/brief.py", "", f"# It is brief.\n{SEVERAL}{PRODUCT}\n"),
            Change("right/other.py", "", f"# It adds.\n{SEVERAL}batch.to(device) + weights\n"),
            Change("exercise.toml", "", EXCUSE.format("drop .to(device) of batch")),
        ),
        (
            "starter.py: the starter passes",
            "right/other.py: it does not pass, with seed 1",
            "wrong/signs_lost.py:1: it passes",
            "wrong/transposed.py:1: it fails first on structure, not on placement",
            "solution.py:11: with this change it still passes: drop torch.cuda.synchronize()",
            "exercise.toml: excused_mutant[0].change: no change that still passes is called 'drop .to(",
        ),
    ),
    "checks": (
        (
            Change("checks.py", "import parity, placement, ", "import Check, Finding, parity, placement, speed, "),
            Change("checks.py", "parity(reference,", f"{OWN_CHECK}\n    parity(reference, times=1000.0,"),
            Change("checks.py", "\n]", "\n    speed(at_most=2.0),\n]"),
            Change("wrong/signs_lost.py", "fails: parity", "fails: own"),
            Change("wrong/transposed.py", "fails: structure", "fails: shape"),
            Change("baseline.py", "", f"def checks(batch, weights, device):\n    return {PRODUCT} * 2000\n"),
        ),
        (
            "wrong/signs_lost.py: its report lacks: why, advice",
            "wrong/signs_lost.py: its report does not name the line",
            "wrong/transposed.py:1: the exercise has no check 'shape'",
            "checks.py: a wrong result is accepted, or almost accepted. parity: ",
            "baseline.py: its values are not right: parity",
        ),
    ),
    "inputs": (
        (
            Change("given.py", "torch.randn(rows, inner, generator=chance)", "torch.zeros(rows, inner)"),
            Change("given.py", "columns, generator=chance", "columns"),
        ),
        (
            "given.py: draw() gives other values each time, with the same seed (case 0)",
            "checks.py: no check of values rejects the solution's results when they are all zeros",
        ),
    ),
    "unseeded": (
        (Change("given.py", ".manual_seed(seed * 10 + case)", ""),),
        ("given.py: draw() gives the same inputs with every seed (cases 0, 1, 2)",),
    ),
    "unbuilt": (
        (Change("given.py", '"device": device', '"device": drawn["device"]'),),
        ("given.py:25: a grading broke: KeyError: 'device'",),
    ),
    "lenient": (
        (
            Change("checks.py", "import parity, ", "import Check, parity, "),
            Change(
                "checks.py", "checks = [", "checks = [Check('any', lambda _: 'It ends', lambda _: None)]\nunasked = ["
            ),
        ),
        ("checks.py: a function that returns None, True, 0, 1.0, 'cuda:0', [] and so on is not rejected",),
    ),
    "unguarded": (
        (
            Change("checks.py", "import parity, ", "import Check, parity, "),
            Change("checks.py", "\n]", "\n    Check('own', lambda _: 'It ends', lambda _: None, kind='values'),\n]"),
        ),
        (
            "checks.py: the solution with zeros instead of results earns 1 of 5 points: own",
            "checks.py: the solution with the first argument instead of results earns 1 of 5 points: own",
        ),
    ),
    "endless": (
        (
            Change("starter.py", "raise NotImplementedError", "while True: pass"),
            Change("exercise.toml", "", "[limits]\nwall_s = 2.0\n"),
        ),
        ("starter.py: the starter is not graded",),
    ),
    "never": (
        (Change("solution.py", f"return {PRODUCT}", f"return {PRODUCT} * 2"),),
        ("solution.py: it does not pass, with seed 1",),
    ),
    "now_and_then": (
        (Change("solution.py", f"return {PRODUCT}", f"return {PRODUCT} * (2 if batch[0, 0] > 1 else 1)"),),
        ("solution.py: it does not pass, with seed ",),
    ),
    "breaks": (
        (
            Change("checks.py", "import parity, ", "import Check, parity, "),
            Change(
                "checks.py",
                "    parity(ref",
                "    Check('own', lambda _: 'It is so', lambda run: nothing),\n    parity(ref",
            ),
        ),
        ("checks.py:28: a grading broke: check 'own': NameError",),
    ),
    "breaks_on_others": (
        (
            Change("checks.py", "import parity, ", "import Check, parity, "),
            Change(
                "checks.py",
                "    parity(ref",
                "    Check('own', lambda _: 'So', lambda run: {}[0] if 'abs' in run.source else None),\n    parity(ref",
            ),
        ),
        ("wrong/signs_lost.py: the check own breaks on it",),
    ),
    "broken": ((Change("checks.py", "checks = [", "checks = [\n    nothing,"),), ("checks.py:16: NameError",)),
    "no_python": (
        (Change("solution.py", "    return", "  return"),),
        ("solution.py:10: it is not valid Python: unindent",),
    ),
}


@pytest.fixture(scope="session")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Subject]:
    """Return the subjects of a course with all mistakes, from a single run of the gate."""
    course = tmp_path_factory.mktemp("courses") / "course"
    for slug, (changes, _) in MISTAKES.items():
        skeleton(course, slug, *changes)
    skeleton(course, "excused", WAITING, Change("exercise.toml", "", EXCUSE.format("drop torch.cuda.synchronize()")))
    lesson = course / "01_lesson" / "lesson.md"
    lesson.write_text(
        lesson.read_text().replace("cpu cuda:0", "cpu cuda:1").replace("except RuntimeError", "except OSError")
    )
    (course / "01_lesson" / "99_missing").mkdir()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GPUTUTOR_HOME", str(tmp_path_factory.mktemp("home")))
        return run_gate(course)


@pytest.mark.parametrize(
    ("slug", "words"), [(slug, words) for slug, (_, problems) in MISTAKES.items() for words in problems]
)
def test_a_mistake_is_reported_with_advice(slug: str, words: str, subjects: dict[str, Subject]) -> None:
    subject = subjects[slug]
    listed = titles(subject)
    assert [title for title in listed if title.startswith(words)], listed
    assert not subject.is_green
    assert all(fault.advice and "\n" not in fault.problem for fault in subject.problems)


@pytest.mark.parametrize(
    "slug",
    ["several", "endless", "now_and_then", "broken", "breaks", "breaks_on_others", "unseeded", "unbuilt", "unguarded"],
)
def test_nothing_else_is_reported(slug: str, subjects: dict[str, Subject]) -> None:
    different = {title.partition("with seed")[0] for title in titles(subjects[slug])}
    assert len(different) == len(MISTAKES[slug][1])


def test_an_exercise_without_mistakes_is_green_and_survivors_are_counted(subjects: dict[str, Subject]) -> None:
    subject = subjects["excused"]
    assert titles(subject) == []
    assert subject.gradings > 20
    assert (subject.mutants.survivors, subject.mutants.killed, subject.mutants.excused) == ((), 5, 1)
    assert (subject.counted("right"), subject.counted("wrong")) == (
        {"kept": 1, "of": 1},
        {"kept": 4, "of": 4, "not_applicable": 0},
    )
    assert subjects["never"].mutants.total == 0, "mutants of a solution that does not pass say nothing"
    several = subjects["several"]
    assert (several.counted("right"), several.counted("wrong")) == (
        {"kept": 2, "of": 3},
        {"kept": 3, "of": 4, "not_applicable": 0},
    )
    assert [mutant.change for mutant in several.mutants.survivors] == ["drop torch.cuda.synchronize()"]
    assert 0.5 < several.mutants.share < 1
    assert "(83 %), 1 " in str(several.mutants)


MODEL = "torch.cuda.get_device_name().endswith('T4')"


def test_on_another_gpu_right_code_must_pass_and_wrong_code_must_fail(tmp_path: Path) -> None:
    skeleton(
        tmp_path,
        "first",
        Change("right/there.py", "", f"# It is right on a T4.\n{FIRST}torch.mm(batch.to(device), weights * {MODEL})\n"),
        Change("wrong/signs_lost.py", ".abs()", f".abs() if {MODEL} else {PRODUCT}"),
    )
    lines: list[str] = []
    gate = Verifier(
        targets_of(tmp_path, ()),
        lambda subject, what: lines.append(what),
        lambda subject: None,
        with_mutants=False,
        models=("T4", "H100"),
    )
    gate.run(1)
    (subject,) = (candidate for candidate in gate.subjects if candidate.exercise is not None)
    right, wrong = sorted(titles(subject))
    assert right.startswith("right/there.py: ")
    assert wrong.startswith("wrong/signs_lost.py:1: ")
    assert "H100" in right
    assert "H100" in wrong
    assert (subject.counted("right"), subject.counted("wrong")) == (
        {"kept": 1, "of": 2},
        {"kept": 3, "of": 4, "not_applicable": 0},
    )
    assert not any(line.endswith("T4") for line in lines)


def test_a_wrong_solution_may_pass_where_its_check_does_not_apply(subjects: dict[str, Subject]) -> None:
    exercise, passed = subjects["excused"].exercise, subjects["excused"].solution
    assert exercise is not None
    assert passed is not None
    wrong = [trial for trial in trials_on(["B200"], exercise) if trial.counts == "wrong"]
    assert wrong
    for trial in wrong:
        assert [fault.line for fault in trial.judge(passed)] == [1]
        named = named_check(trial.source)
        others = tuple(verdict for verdict in passed.verdicts if verdict.check != named)
        worth = sum(verdict.of for verdict in others)
        without = replace(passed, verdicts=others, of=worth)
        assert list(trial.judge(without)) == []
        assert (trial.result(passed), trial.result(without)) == ("not kept", "not applicable")
        assert replace(trial, gpu=None).result(without) == "not kept"


def test_a_check_that_does_not_apply_is_a_number_of_its_own() -> None:
    subject = Subject("1.1 example", Path())
    subject.results = {
        ("right", "solution"): {"kept"},
        ("wrong", "wrong/fails.py"): {"kept"},
        ("wrong", "wrong/excused.py"): {"kept", "not applicable"},
        ("wrong", "wrong/passes.py"): {"not applicable", "not kept"},
    }
    assert subject.counted("wrong") == {"kept": 1, "of": 3, "not_applicable": 1}
    assert subject.counted("right") == {"kept": 1, "of": 1}


def test_slow_solutions_examples_and_missing_files_are_reported(subjects: dict[str, Subject]) -> None:
    exercise, report = subjects["excused"].exercise, subjects["excused"].solution
    assert exercise is not None
    assert report is not None
    judge = first_trial(exercise).judge
    assert list(judge(replace(report, elapsed_s=4.0, waited_s=0.0))) == []
    (fault,) = judge(replace(report, elapsed_s=7.0, waited_s=1.0))
    assert (fault.key, fault.is_note) == ("limits.wall_s", True)
    assert "6.0 s" in fault.problem
    lesson = subjects["lesson"]
    printed, raised = titles(lesson)
    assert printed.startswith(f"{lesson.folder}:30: ")
    assert raised.startswith(f"{lesson.folder}:72: the example raises RuntimeError: ")
    assert lesson.problems[0].details == ("the text says:", "  cpu cuda:1", "it prints:", "  cpu cuda:0")
    missing = [fault for name, subject in subjects.items() if "99_missing" in name for fault in subject.problems]
    assert {fault.file.name for fault in missing} >= {"exercise.toml", "task.md", "checks.py"}


def test_examples_get_the_lessons_number_of_gpus_and_must_not_exit(tmp_path: Path) -> None:
    course = tmp_path / "course"
    lesson = skeleton(course, "first").parent
    text = (lesson / "lesson.md").read_text()
    asked = "import torch\n\nassert torch.cuda.device_count() == 2\n"
    (lesson / "lesson.md").write_text(text.replace("import torch\n", asked, 1))
    (loaded,) = load_course(course).lessons
    station = JudgePool()
    assert [fault.problem for fault in example_problems(loaded, station)] == ["the example raises AssertionError: "]
    (lesson / "lesson.toml").write_text('title = "Two"\nsummary = "Two."\ngpus = 2\n')
    (loaded,) = load_course(course).lessons
    assert list(example_problems(loaded, station)) == []
    (lesson / "lesson.md").write_text(text.replace("import torch\n", "raise SystemExit(3)\n", 1))
    (loaded,) = load_course(course).lessons
    (fault,) = example_problems(loaded, station)
    assert fault.problem.endswith("exit status 3")


def test_a_single_exercise_is_verified_without_mutants(tmp_path: Path) -> None:
    course = tmp_path / "course"
    skeleton(course, "first", WAITING)
    skeleton(course, "second")
    log: list[str] = []
    subjects = run_gate(course, str(course / "01_lesson" / "01_first"), stations=1, with_mutants=False, log=log)
    assert list(subjects) == ["first"]
    assert titles(subjects["first"]) == []
    assert subjects["first"].mutants.total == 0
    assert (log[:2], log[-1]) == (["checks", "solution, seed 1"], "end 1.1 first")


@pytest.mark.parametrize(
    ("code", "words"),
    [("while True: pass", "over 1 s"), ("import os; os._exit(3)", "ended the process (exit status 3).")],
)
def test_checks_that_never_end_or_end_the_program_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, words: str
) -> None:
    monkeypatch.setattr(pool, "EXAMINED_WITHIN_S", 1.0 if "while" in code else 60.0)
    folder = skeleton(tmp_path / "course", "first", Change("checks.py", "checks = [", f"{code}\nchecks = ["))
    subject = run_gate(tmp_path / "course", str(folder))["first"]
    (title,) = titles(subject)
    assert words in title
    assert subject.gradings == 0


def test_jobs_are_done_in_their_order() -> None:
    done: list[int] = []

    def work(number: int) -> JudgeJob:
        def do(station: JudgePool) -> list[JudgeJob]:
            done.append(number)
            return [work(number + 2)] if number < 3 else []

        return JudgeJob((number,), do)

    do_all([work(2), work(1)], 1)
    assert done == [1, 2, 3, 4]

    def breaks(station: JudgePool) -> list[JudgeJob]:
        raise ZeroDivisionError

    def gives(station: JudgePool) -> list[JudgeJob]:
        return [JudgeJob((1,), breaks), JudgeJob((2,), gives)]

    with pytest.raises(ZeroDivisionError):
        do_all([JudgeJob((0,), gives)], 2)
