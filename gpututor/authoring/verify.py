"""`gpututor verify`: grades an exercise's files and mutants, and reports what its author has to change."""

from __future__ import annotations

import difflib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from gpututor.authoring import lint
from gpututor.authoring.mutants import MARK, Mutant
from gpututor.authoring.pool import JudgeJob, JudgePool, do_all
from gpututor.authoring.problems import Problem, from_error
from gpututor.authoring.trials import Trial, TrialResult, examined_problems, first_trial, further_trials, trials_on
from gpututor.course.loader import load_course
from gpututor.course.model import Course, Exercise, Lesson
from gpututor.errors import CourseError, GradingError, UsageError
from gpututor.grading.report import Outcome, Report


@dataclass(frozen=True)
class MutantReport:
    """Numbers of mutants of one or several exercises, by result."""

    killed: int = 0
    excused: int = 0
    survivors: tuple[Mutant, ...] = ()
    """Mutants that pass without an excuse in the manifest."""
    idle: int = 0
    """Mutants that changed nothing observable, or could not be made; counted nowhere else."""

    @property
    def total(self) -> int:
        return self.killed + self.excused + len(self.survivors)

    @property
    def share(self) -> float:
        """Share of mutants that a check noticed; 1 if there are none."""
        return self.killed / self.total if self.total else 1.0

    def __add__(self, other: MutantReport) -> MutantReport:
        survivors = self.survivors + other.survivors
        return MutantReport(self.killed + other.killed, self.excused + other.excused, survivors, self.idle + other.idle)

    def __str__(self) -> str:
        """Return `12 of 13 mutants killed (92 %), 1 excused`."""
        if not self.total:
            return "no mutants"
        words = f"{self.killed} of {self.total} mutants killed ({100 * self.killed // self.total} %)"
        words += f", {self.excused} excused" if self.excused else ""
        return words + (f", {len(self.survivors)} still pass" if self.survivors else "")

    def to_json(self) -> dict[str, Any]:
        return {
            "killed": self.killed,
            "excused": self.excused,
            "survivors": [{"line": mutant.line, "change": mutant.change} for mutant in self.survivors],
            "idle": self.idle,
            "share": round(self.share, 4),
        }


def report_mutants(exercise: Exercise, tried: Sequence[tuple[Mutant, Report]], solution: Report) -> MutantReport:
    """Count mutants by result; `solution` is the solution's report on the same inputs."""
    excuses = {excuse.change for excuse in exercise.excused_mutants}
    killed = excused = idle = 0
    survivors: list[Mutant] = []
    for mutant, report in tried:
        if _is_idle(mutant, report, solution):
            idle += 1
        elif report.outcome is not Outcome.PASSED:
            killed += 1
        elif mutant.change in excuses:
            excused += 1
        else:
            survivors.append(mutant)
    return MutantReport(killed, excused, tuple(sorted(survivors, key=lambda mutant: mutant.line)), idle)


def mutant_problems(
    exercise: Exercise, tried: Sequence[tuple[Mutant, Report]], solution: Report, mutants: MutantReport
) -> Iterator[Problem]:
    """Yield problems: survivors, unused excuses, and changes that broke the grader."""
    file = exercise.folder / "solution.py"
    for mutant in mutants.survivors:
        advice = (
            "Let a check notice it; or, if it is harmless, say so in exercise.toml: "
            f'[[excused_mutant]] with change = "{mutant.change}" and a reason.'
        )
        yield Problem(file, f"with this change it still passes: {mutant.change}", advice, line=mutant.line)
    passing = {
        mutant.change
        for mutant, report in tried
        if report.outcome is Outcome.PASSED and not _is_idle(mutant, report, solution)
    }
    for position, excuse in enumerate(exercise.excused_mutants):
        if excuse.change not in passing:
            near = difflib.get_close_matches(excuse.change, [mutant.change for mutant in mutants.survivors], n=1)
            advice = f"Did you mean {near[0]!r}?" if near else _UNUSED_EXCUSE
            problem = f"no change that still passes is called {excuse.change!r}"
            key = f"excused_mutant[{position}].change"
            yield Problem(exercise.folder / "exercise.toml", problem, advice, key=key)
    for mutant, report in tried:
        if report.outcome is Outcome.INTERNAL_ERROR:
            problem = f"the grader broke at this change: {mutant.change}"
            advice = "Look for what checks.py does not expect."
            yield Problem(file, problem, advice, line=mutant.line, details=(report.reason,))


def _is_idle(mutant: Mutant, report: Report, solution: Report) -> bool:
    """Return True if the change had no effect on any device, or the value lacks the attribute that it needs."""
    if mutant.adds and any(f"has no attribute '{mutant.adds}'" in run.traceback for run in report.runs):
        return True
    if report.outcome is not Outcome.PASSED:
        return False
    if mutant.marks:
        return not any(MARK in run.output for run in report.runs)
    return bool(mutant.adds) and _device_counts(report) == _device_counts(solution)


def _device_counts(report: Report) -> list[tuple[int, int, int]]:
    return [(run.kernels, run.transfers, run.synchronisations) for run in report.runs]


_UNUSED_EXCUSE = "Remove it: a check notices that change, or none is made."
_MANIFESTS = {"exercise.toml": "exercise", "lesson.toml": "lesson", "lesson.md": "lesson"}


@dataclass(frozen=True)
class Targets:
    """Lessons and exercises of one course to verify."""

    course: Course
    lessons: tuple[Lesson, ...]
    exercises: tuple[Exercise, ...]
    problems: tuple[CourseError, ...]
    """Problems in these lessons and exercises, found when the course was loaded."""
    note: str = ""
    """Text after the names of exercises, such as the values of their variants."""


def targets_of(course_folder: Path, words: Sequence[str]) -> tuple[Targets, ...]:
    """Return the targets that `words` name, by course; without words, the whole course in `course_folder`.

    A word is the folder of an exercise, a lesson or a course, or a file in such a folder. It may also be a number (5,
    5.1) or a name in the course in `course_folder`. Raises `UsageError` for any other word, `CourseError` for a folder
    that is not a course.
    """
    if not words:
        course = load_course(course_folder)
        return (Targets(course, course.lessons, course.exercises, course.problems),)
    wanted: dict[Path, list[Path]] = {}
    for word in words:
        course_of, folder = _find_folder(course_folder, word)
        wanted.setdefault(course_of, []).append(folder)
    return tuple(_within(load_course(course), folders) for course, folders in wanted.items())


def _find_folder(course_folder: Path, word: str) -> tuple[Path, Path]:
    """Return the course's folder and the folder that `word` names."""
    path = Path(os.path.abspath(Path(word).expanduser()))
    if path.exists():
        for folder in (path, *path.parents[:3])[path.is_file() :]:
            match _kind(folder):
                case "exercise":
                    return folder.parent.parent, folder
                case "lesson":
                    return folder.parent, folder
        if path.is_dir():
            return path, path
    course = load_course(course_folder)
    for lesson in course.lessons:
        if word in (str(lesson.number), lesson.slug, lesson.folder.name):
            return course.folder, lesson.folder
    return course.folder, course.find(word).folder


def _kind(folder: Path) -> str:
    """Return `exercise` or `lesson`, by the manifest; any other folder in a lesson counts as an exercise."""
    for name, kind in _MANIFESTS.items():
        if (folder / name).is_file():
            return kind
    return "exercise" if any((folder.parent / name).is_file() for name in ("lesson.toml", "lesson.md")) else ""


def _within(course: Course, folders: Iterable[Path]) -> Targets:
    folders = tuple(dict.fromkeys(folders))

    def is_wanted(path: Path) -> bool:
        return any(path.is_relative_to(folder) for folder in folders)

    lessons = tuple(lesson for lesson in course.lessons if is_wanted(lesson.folder))
    exercises = tuple(exercise for exercise in course.exercises if is_wanted(exercise.folder))
    problems = tuple(problem for problem in course.problems if is_wanted(Path(problem.title.partition(": ")[0])))
    if not (lessons or exercises or problems):
        title = f"{folders[0]}: there is no lesson and no exercise."
        raise UsageError(title, "Name the folder of an exercise, a lesson or a course.")
    return Targets(course, lessons, exercises, problems)


@dataclass(eq=False)
class Subject:
    """An exercise or a lesson's text, and the results so far."""

    name: str
    """`5.1 one_big_copy`, `lesson 5 keep_the_data_moving`, or the path of a broken file."""
    folder: Path
    exercise: Exercise | None = None
    problems: list[Problem] = field(default_factory=list)
    gradings: int = 0
    seconds: float = 0.0
    """Sum of the seconds of all its jobs, which run in parallel."""
    mutants: MutantReport = field(default_factory=MutantReport)
    solution: Report | None = None
    """Report of the solution with the first seed."""
    tried: list[tuple[Mutant, Report]] = field(default_factory=list)
    results: dict[tuple[str, str], set[TrialResult]] = field(default_factory=dict)
    """Results of all gradings of a file, by (`right` or `wrong`, file)."""
    open_jobs: int = 0

    @property
    def is_green(self) -> bool:
        return all(problem.is_note for problem in self.problems)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "folder": str(self.folder),
            "green": self.is_green,
            "problems": [problem.to_json() for problem in self.problems if not problem.is_note],
            "notes": [problem.to_json() for problem in self.problems if problem.is_note],
            "gradings": self.gradings,
            "seconds": round(self.seconds, 2),
            "right": self.counted("right"),
            "wrong": self.counted("wrong"),
            "mutants": self.mutants.to_json() if self.exercise is not None else None,
        }

    def counted(self, what: str) -> dict[str, int]:
        """Return the number of right or wrong submissions, and of those with the required outcome each time.

        `not_applicable`: wrong ones that passed, but only on GPU models on which their named check does not apply.
        """
        ended = [results for (kind, _), results in self.results.items() if kind == what]
        counts = {"kept": sum(results == {"kept"} for results in ended), "of": len(ended)}
        if what == "wrong":
            counts["not_applicable"] = sum("not applicable" in end and "not kept" not in end for end in ended)
        return counts


class Verifier:
    """Verification of some targets. Used once."""

    def __init__(
        self,
        targets: Sequence[Targets],
        advanced: Callable[[Subject, str], object],
        finished: Callable[[Subject], object],
        *,
        with_mutants: bool = True,
        models: Sequence[str] = (),
    ) -> None:
        """`advanced` takes a subject and the step that begins. Both are called from several threads, one at a time."""
        self._targets = targets
        self._advanced, self._finished = advanced, finished
        self._with_mutants = with_mutants
        self._models = models
        self._lock = threading.Lock()
        self.subjects: list[Subject] = []

    def run(self, judges: int) -> None:
        """Do all the work with this number of judges. Raises only errors of gpututor itself."""
        jobs: list[JudgeJob] = []
        for targets in self._targets:
            self.subjects += _broken_files(targets)
            for lesson in targets.lessons:
                subject = Subject(f"lesson {lesson.number} {lesson.slug}", lesson.folder / "lesson.md")
                self.subjects.append(subject)
                jobs.append(self._job(subject, 0, "examples", partial(self._lesson, subject, lesson, targets.course)))
            for exercise in targets.exercises:
                subject = Subject(f"{exercise.label} {exercise.slug}{targets.note}", exercise.folder, exercise)
                self.subjects.append(subject)
                begin = partial(self._exercise, subject, exercise, targets.course)
                jobs.append(self._job(subject, 0, "checks", begin))
        for subject in self.subjects:
            if not subject.open_jobs:
                self._finished(subject)
        do_all(jobs, judges)

    def _job(
        self, subject: Subject, place: int, what: str, work: Callable[[JudgePool], Iterable[JudgeJob]]
    ) -> JudgeJob:
        """Return a job; jobs of the first subjects come first, so that they finish first."""
        subject.open_jobs += 1

        def do(judge: JudgePool) -> Iterable[JudgeJob]:
            with self._lock:
                self._advanced(subject, what)
            began = time.monotonic()
            further = list(work(judge))
            with self._lock:
                subject.seconds += time.monotonic() - began
                subject.open_jobs -= 1
                if not subject.open_jobs:
                    self._finish(subject)
            return further

        return JudgeJob((self.subjects.index(subject), place), do)

    def _lesson(self, subject: Subject, lesson: Lesson, course: Course, judge: JudgePool) -> Iterable[JudgeJob]:
        self._add(subject, lint.lesson_problems(lesson, course))
        self._add(subject, example_problems(lesson, judge))
        return ()

    def _exercise(self, subject: Subject, exercise: Exercise, course: Course, judge: JudgePool) -> Iterable[JudgeJob]:
        self._add(subject, lint.exercise_problems(exercise, course))
        try:
            examined = judge.examine(exercise)
            if examined.error is not None:
                raise examined.error
            self._add(subject, examined_problems(exercise, examined))
            trials = [first_trial(exercise), *further_trials(exercise, examined, with_mutants=self._with_mutants)]
            trials += trials_on(self._models, exercise)
        except (CourseError, GradingError) as error:
            self._add(subject, [from_error(error, exercise.folder / "checks.py")])
            return ()
        except SyntaxError as error:
            problem = f"it is not valid Python: {error.msg}"
            self._add(subject, [Problem(exercise.folder / "solution.py", problem, "Fix the line.", error.lineno)])
            return ()
        with self._lock:
            return [
                self._job(subject, place, trial.name, partial(self._trial, subject, exercise, trial))
                for place, trial in enumerate(trials, 1)
            ]

    def _trial(self, subject: Subject, exercise: Exercise, trial: Trial, judge: JudgePool) -> Iterable[JudgeJob]:
        first = subject.solution
        if trial.after_solution and first is not None and first.outcome is not Outcome.PASSED:
            return ()
        try:
            report = judge.grade(exercise, trial.source, trial.seed, trial.gpu)
        except GradingError as error:
            advice = f"{error.advice} It was at: {trial.name}."
            self._add(subject, [Problem(exercise.folder, error.title, advice)])
            return ()
        with self._lock:
            subject.gradings += 1
            if trial.counts:
                key = (trial.counts, trial.file)
                subject.results.setdefault(key, set()).add(trial.result(report))
            if trial.mutant is not None:
                subject.tried.append((trial.mutant, report))
            elif not trial.after_solution and subject.solution is None and trial.source == exercise.solution:
                subject.solution = report
        broke = report.outcome is Outcome.INTERNAL_ERROR and trial.mutant is None
        self._add(subject, [_broken_grading(exercise, report)] if broke else trial.judge(report))
        return ()

    def _add(self, subject: Subject, problems: Iterable[Problem]) -> None:
        new = list(problems)
        with self._lock:
            subject.problems += [problem for problem in new if problem not in subject.problems]

    def _finish(self, subject: Subject) -> None:
        exercise, solution = subject.exercise, subject.solution
        if exercise is not None and solution is not None and solution.outcome is Outcome.PASSED and self._with_mutants:
            subject.mutants = report_mutants(exercise, subject.tried, solution)
            subject.problems += mutant_problems(exercise, subject.tried, solution, subject.mutants)
            subject.tried.clear()
        subject.problems.sort(key=lambda problem: problem.is_note)
        self._finished(subject)


def _broken_grading(exercise: Exercise, report: Report) -> Problem:
    """Return a problem that is equal for all submissions that break the same way, so that it is reported once."""
    problem, _, advice = report.reason.partition("\n")
    file = exercise.folder / "checks.py"
    error = CourseError(problem, advice or "Look for a result that checks.py does not expect.")
    located = from_error(error, file)
    return replace(located, problem=f"a grading broke: {located.problem}")


def _broken_files(targets: Targets) -> Iterable[Subject]:
    by_file: dict[Path, Subject] = {}
    for error in targets.problems:
        problem = from_error(error, targets.course.folder)
        by_file.setdefault(problem.file, Subject(str(problem.file), problem.file)).problems.append(problem)
    return by_file.values()


def example_problems(lesson: Lesson, judge: JudgePool) -> Iterator[Problem]:
    """Yield examples of a lesson that fail, or whose output differs from the text."""
    file = lesson.folder / "lesson.md"
    try:
        results = judge.run_examples(lesson)
    except GradingError as error:
        yield from_error(error, file)
        return
    for result in results:
        if result["error"] is not None:
            raised = result["error"]
            advice = "Fix the example; examples run one after the other, in one namespace."
            yield Problem(file, f"the example raises {raised['words']}", advice, line=raised["line"])
        elif result["expected"] is not None and result["printed"] != result["expected"]:
            said, printed = ([f"  {line}" for line in result[key].splitlines()] for key in ("expected", "printed"))
            details = ("the text says:", *said, "it prints:", *printed)
            advice = "Copy what it prints into the ```text block; print nothing that differs from run to run."
            yield Problem(file, "the example does not print what the text says", advice, result["line"], "", details)
    written = lint.examples(lesson.text)
    if not any(result["error"] for result in results) and len(results) != written:
        problem = f"{written} blocks of Python begin, but only {len(results)} are complete"
        yield Problem(file, problem, "Begin and end each block with ``` at the start of a line.")
