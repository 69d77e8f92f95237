"""The author's gate: everything that has to be so of exercises and lessons, tried side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from gpututor.authoring import form
from gpututor.authoring.faults import Fault, from_error
from gpututor.authoring.mutants import Mutant
from gpututor.authoring.stations import Job, Station, do_all
from gpututor.authoring.survivors import Tally, mutant_faults, tally_of
from gpututor.authoring.targets import Targets
from gpututor.authoring.trials import Trial, examined_faults, first_trial, further_trials, trials_on
from gpututor.course.exercise import Course, Exercise, Lesson
from gpututor.errors import CourseError, GradingError
from gpututor.grading.report import Outcome, Report


@dataclass(eq=False)
class Subject:
    """One exercise or one lesson's text, and what was found of it."""

    name: str
    """`5.1 one_big_copy`, `lesson 5 keep_the_data_moving`, or the path of something broken."""
    folder: Path
    exercise: Exercise | None = None
    faults: list[Fault] = field(default_factory=list)
    gradings: int = 0
    seconds: float = 0.0
    """Of all its work, added up: stations work side by side."""
    tally: Tally = field(default_factory=Tally)
    solution: Report | None = None
    """Of the solution with the first seed."""
    tried: list[tuple[Mutant, Report]] = field(default_factory=list)
    kept: dict[tuple[str, str], bool] = field(default_factory=dict)
    """By `right` or `wrong` and the file: True while every grading of it ended as it must."""
    open_jobs: int = 0

    @property
    def is_green(self) -> bool:
        return all(fault.is_note for fault in self.faults)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "folder": str(self.folder),
            "green": self.is_green,
            "problems": [fault.to_json() for fault in self.faults if not fault.is_note],
            "notes": [fault.to_json() for fault in self.faults if fault.is_note],
            "gradings": self.gradings,
            "seconds": round(self.seconds, 2),
            "right": self.counted("right"),
            "wrong": self.counted("wrong"),
            "mutants": self.tally.to_json() if self.exercise is not None else None,
        }

    def counted(self, what: str) -> dict[str, int]:
        """Return the number of right or wrong submissions, and how many of them ended as they must every time."""
        ended = [is_kept for (kind, _), is_kept in self.kept.items() if kind == what]
        return {"kept": sum(ended), "of": len(ended)}


@dataclass(frozen=True)
class Listener:
    """What is told while the gate is at work, from several threads, one at a time."""

    advanced: Callable[[Subject, str], None]
    """Of this subject, this is done now."""
    finished: Callable[[Subject], None]


class Gate:
    """Looks at all of some targets. Used once."""

    def __init__(
        self,
        targets: Sequence[Targets],
        listener: Listener,
        *,
        with_mutants: bool = True,
        models: Sequence[str] = (),
    ) -> None:
        self._targets = targets
        self._listener = listener
        self._with_mutants = with_mutants
        self._models = models
        self._lock = threading.Lock()
        self.subjects: list[Subject] = []

    def work(self, stations: int) -> None:
        """Returns when all is done. Raises only what is a fault of the gate itself."""
        jobs: list[Job] = []
        for targets in self._targets:
            self.subjects += _broken(targets)
            for lesson in targets.lessons:
                subject = Subject(f"lesson {lesson.number} {lesson.slug}", lesson.folder / "lesson.md")
                self.subjects.append(subject)
                jobs.append(self._job(subject, 0, "examples", partial(self._lesson, subject, lesson, targets.course)))
            for exercise in targets.exercises:
                subject = Subject(f"{exercise.label} {exercise.slug}", exercise.folder, exercise)
                self.subjects.append(subject)
                begin = partial(self._exercise, subject, exercise, targets.course)
                jobs.append(self._job(subject, 0, "checks", begin))
        for subject in self.subjects:
            if not subject.open_jobs:
                self._listener.finished(subject)
        do_all(jobs, stations)

    def _job(self, subject: Subject, place: int, what: str, work: Callable[[Station], Iterable[Job]]) -> Job:
        """Exercises are begun in their order, so that the first are told of while the last still wait."""
        subject.open_jobs += 1

        def do(station: Station) -> Iterable[Job]:
            with self._lock:
                self._listener.advanced(subject, what)
            began = time.monotonic()
            further = list(work(station))
            with self._lock:
                subject.seconds += time.monotonic() - began
                subject.open_jobs -= 1
                if not subject.open_jobs:
                    self._finish(subject)
            return further

        return Job((self.subjects.index(subject), place), do)

    def _lesson(self, subject: Subject, lesson: Lesson, course: Course, station: Station) -> Iterable[Job]:
        self._add(subject, form.lesson_faults(lesson, course))
        self._add(subject, example_faults(lesson, station))
        return ()

    def _exercise(self, subject: Subject, exercise: Exercise, course: Course, station: Station) -> Iterable[Job]:
        self._add(subject, form.exercise_faults(exercise, course))
        try:
            examined = station.examine(exercise)
            if examined.error is not None:
                raise examined.error
            self._add(subject, examined_faults(exercise, examined))
            trials = [first_trial(exercise), *further_trials(exercise, examined, with_mutants=self._with_mutants)]
            trials += trials_on(self._models, exercise)
        except (CourseError, GradingError) as error:
            self._add(subject, [from_error(error, exercise.folder / "checks.py")])
            return ()
        except SyntaxError as error:
            problem = f"it is no Python: {error.msg}"
            self._add(subject, [Fault(exercise.folder / "solution.py", problem, "Mend the line.", error.lineno)])
            return ()
        with self._lock:
            return [
                self._job(subject, place, trial.name, partial(self._trial, subject, exercise, trial))
                for place, trial in enumerate(trials, 1)
            ]

    def _trial(self, subject: Subject, exercise: Exercise, trial: Trial, station: Station) -> Iterable[Job]:
        first = subject.solution
        if trial.after_solution and first is not None and first.outcome is not Outcome.PASSED:
            return ()
        try:
            report = station.grade(exercise, trial.source, trial.seed, trial.gpu)
        except GradingError as error:
            advice = f"{error.advice} It was at: {trial.name}."
            self._add(subject, [Fault(exercise.folder, error.title, advice)])
            return ()
        with self._lock:
            subject.gradings += 1
            if trial.counts:
                key = (trial.counts, trial.file)
                subject.kept[key] = subject.kept.get(key, True) and trial.is_kept(report)
            if trial.mutant is not None:
                subject.tried.append((trial.mutant, report))
            elif not trial.after_solution and subject.solution is None and trial.source == exercise.solution:
                subject.solution = report
        broke = report.outcome is Outcome.INTERNAL_ERROR and trial.mutant is None
        self._add(subject, [_broken_grading(exercise, report)] if broke else trial.judge(report))
        return ()

    def _add(self, subject: Subject, faults: Iterable[Fault]) -> None:
        found = list(faults)
        with self._lock:
            subject.faults += [fault for fault in found if fault not in subject.faults]

    def _finish(self, subject: Subject) -> None:
        exercise, solution = subject.exercise, subject.solution
        if exercise is not None and solution is not None and solution.outcome is Outcome.PASSED and self._with_mutants:
            subject.tally = tally_of(exercise, subject.tried, solution)
            subject.faults += mutant_faults(exercise, subject.tried, solution, subject.tally)
            subject.tried.clear()
        subject.faults.sort(key=lambda fault: fault.is_note)
        self._listener.finished(subject)


def _broken_grading(exercise: Exercise, report: Report) -> Fault:
    """The same for each submission at which it breaks, so that it is told once."""
    problem, _, advice = report.reason.partition("\n")
    file = exercise.folder / "checks.py"
    fault = from_error(CourseError(problem, advice or "Look for a result that checks.py does not expect."), file)
    return replace(fault, problem=f"a grading broke: {fault.problem}")


def _broken(targets: Targets) -> Iterator[Subject]:
    """What the catalogue could not read, one subject for each file."""
    by_file: dict[Path, Subject] = {}
    for problem in targets.problems:
        fault = from_error(problem, targets.course.folder)
        subject = by_file.setdefault(fault.file, Subject(str(fault.file), fault.file))
        subject.faults.append(fault)
    yield from by_file.values()


def example_faults(lesson: Lesson, station: Station) -> Iterator[Fault]:
    """What the examples of a lesson print that its text does not say, or where they stop."""
    file = lesson.folder / "lesson.md"
    try:
        results = station.run_examples(lesson)
    except GradingError as error:
        yield from_error(error, file)
        return
    for result in results:
        if result["error"] is not None:
            raised = result["error"]
            advice = "Mend the example; examples run one after the other, in one namespace."
            yield Fault(file, f"the example raises {raised['words']}", advice, line=raised["line"])
        elif result["expected"] is not None and result["printed"] != result["expected"]:
            said = [f"  {line}" for line in result["expected"].splitlines()]
            printed = [f"  {line}" for line in result["printed"].splitlines()]
            details = ("the text says:", *said, "it prints:", *printed)
            advice = "Copy what it prints into the ```text block; print nothing that differs from run to run."
            yield Fault(file, "the example does not print what the text says", advice, result["line"], "", details)
    written = lesson.text.count("```python\n")
    if not any(result["error"] for result in results) and len(results) != written:
        problem = f"{written} blocks of Python begin, and {len(results)} were found whole"
        yield Fault(file, problem, "Begin and end each block with ``` at the start of a line.")
