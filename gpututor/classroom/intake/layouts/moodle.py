"""Moodle's "Download all submissions": `Full Name_1234567_assignsubmission_file_/…`, with folders or without.

The number is the participant's, the same as in the grading worksheet. Groups have theirs. Text that was typed into
Moodle is in `…_assignsubmission_onlinetext_/onlinetext.html`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpututor.classroom.intake.layouts.place import Person, Place

NAME = re.compile(
    r"(?P<name>.*?)(?:_(?P<id>\d{1,18}))?_assignsubmission_(?P<kind>[a-z]+?)(?:_(?P<file>.*))?", re.DOTALL
)
_ONLINE_TEXT = "It is text that was typed into Moodle, and no file: it cannot be graded."


class Moodle:
    name = "moodle"

    def place(self, parts: Sequence[str]) -> Place:
        found = NAME.fullmatch(parts[0])
        if found is None:
            return Place(path=tuple(parts), why="Its name is none that Moodle gives.")
        number, name = found["id"] or "", found["name"].strip()
        person = Person(key=number or name, best_id=number or name, name=name, platform_id=number)
        if found["kind"] != "file":
            return Place((person,), tuple(parts[1:]), why=_ONLINE_TEXT)
        return Place((person,), tuple(part for part in (found["file"], *parts[1:]) if part))
