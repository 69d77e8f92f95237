"""Gradescope's export: `submission_123/…` for each submission, and `submission_metadata.yml`, which says whose it is.

Students are known by the number that Gradescope has of them (`sid`), or else their address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpututor.classroom.intake.gradescope_metadata import Submission
from gpututor.classroom.intake.layouts.place import Person, Place
from gpututor.classroom.intake.names import without_ending

METADATA = "submission_metadata.yml"


class Gradescope:
    name = "gradescope"

    def __init__(self, submissions: Mapping[str, Submission]) -> None:
        self._submissions = submissions
        self._addresses = {
            one.email.casefold(): one.sid
            for submission in submissions.values()
            for one in submission.submitters
            if one.email and one.sid
        }

    def place(self, parts: Sequence[str]) -> Place:
        first, *rest = parts
        if first == METADATA:
            return Place(path=(first,), why="It says whose the submissions are, and was read.")
        submission = self._submissions.get(without_ending(first, ".zip"))
        if submission is None:
            return Place(path=tuple(parts), why=f"{METADATA} does not name it.")
        people = tuple(
            dict.fromkeys(
                self._person(one.name, one.sid, one.email, submission.group)
                for one in submission.submitters
                if one.sid or one.email or one.name
            )
        )
        if not people:
            return Place(path=tuple(parts), why=f"{METADATA} names no student for it.")
        return Place(people, tuple(rest), submitted_at=submission.created_at, earlier=submission.earlier)

    def _person(self, name: str, sid: str, email: str, group: str) -> Person:
        sid = sid or self._addresses.get(email.casefold(), "")  # somebody whose number is not in every submission
        best = sid or email.casefold() or name
        key = best if sid or email else f"{name} {group}"
        return Person(key=key, best_id=best, name=name, email=email, platform_id=sid)
