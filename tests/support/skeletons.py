"""Courses of skeletons, each with one mistake, and the author's gate to examine them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpututor.authoring.scaffold import make_exercise
from gpututor.authoring.verify import Subject, Verifier, targets_of


@dataclass(frozen=True)
class Change:
    """A change of `old` to `new` in an exercise's file; an empty `old` appends `new`, or makes the file."""

    file: str
    old: str
    new: str

    def make(self, exercise: Path) -> None:
        path = exercise / self.file
        text = path.read_text() if path.exists() else ""
        if self.old:
            assert self.old in text, f"{self.old!r} is not in {self.file}"
            path.write_text(text.replace(self.old, self.new))
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text + self.new)


def skeleton(course: Path, slug: str, *changes: Change) -> Path:
    """Add an exercise with these changes to the lesson `lesson`; return its folder."""
    made = make_exercise(course, f"lesson/{slug}")
    for change in changes:
        change.make(made.exercise)
    return made.exercise


def run_gate(
    course: Path, *words: str, stations: int = 2, with_mutants: bool = True, log: list[str] | None = None
) -> dict[str, Subject]:
    """Run the author's gate; return its subjects by name, and append its messages to `log`."""
    lines = [] if log is None else log
    gate = Verifier(
        targets_of(course, words),
        lambda subject, what: lines.append(what),
        lambda subject: lines.append(f"end {subject.name}"),
        with_mutants=with_mutants,
    )
    gate.run(stations)
    return {subject.name.rpartition(" ")[2]: subject for subject in gate.subjects}


def titles(subject: Subject) -> Sequence[str]:
    """Return the titles of a subject's problems, with paths relative to its folder."""
    return [fault.title(subject.folder) for fault in subject.problems if not fault.is_note]
