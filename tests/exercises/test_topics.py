"""The page of topics links to every exercise of the course by its name and number."""

from __future__ import annotations

import re

from gpututor.course.model import Exercise
from tests.support import ROOT
from tests.support.shipped_course import COURSE

PAGE = ROOT / "docs" / "topics.md"
LINK = re.compile(r"^\[(\d+\.\d+ \w+)\]: (\S+)$", re.MULTILINE)
MENTION = re.compile(r"\[(\d+\.\d+ \w+)\](?!:)")


def name(exercise: Exercise) -> str:
    return f"{exercise.label} {exercise.slug}"


def test_the_page_links_every_exercise_by_number_and_name_and_nothing_else() -> None:
    links = {label: (PAGE.parent / target).resolve() for label, target in LINK.findall(PAGE.read_text("utf-8"))}
    wanted = {name(exercise): exercise.folder.resolve() for exercise in COURSE.exercises}
    missing = [
        f"[{label}]: ../exercises/{'/'.join(at.parts[-2:])}" for label, at in wanted.items() if label not in links
    ]
    assert links == wanted, "these lines are missing:\n" + "\n".join(missing)
    mentioned = set(MENTION.findall(PAGE.read_text("utf-8")))
    assert mentioned == {name(exercise) for exercise in COURSE.exercises}
