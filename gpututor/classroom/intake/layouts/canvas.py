"""Canvas's `submissions.zip`: `lastfirst_LATE_12345_67890_name-2.py`.

That is the student's name, a mark when it was late, the user's number, the upload's number, and the file's name, to
which Canvas adds `-2` and so on. Without names, where marking is anonymous: `anon_x1Yz_67890_name.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpututor.classroom.intake.layouts.place import Person, Place

_WHO = r"(?:(?P<name>.*?[^_])_)??(?:(?P<late>LATE)_)?(?P<id>(?<![^_])\d{1,18}|anon_[A-Za-z0-9]+)"
NAME = re.compile(_WHO + r"_(?P<upload>\d{1,18})_(?P<file>.+)", re.DOTALL)
TYPED = re.compile(_WHO + r"_(?:text|link)(?:-\d+)?\.html", re.DOTALL)
_NOT_A_FILE = "It is text or a link that was typed into Canvas, and no file: it cannot be graded."


def match(name: str) -> re.Match[str] | None:
    """A file's name taken apart, where it is one that Canvas gives."""
    found = NAME.fullmatch(name) or TYPED.fullmatch(name)
    if found is None or (found["name"] is None and not found["late"] and not found["id"].startswith("anon_")):
        return None  # `05_01_one_big_copy.py` is nobody's
    return found


class Canvas:
    name = "canvas"

    def place(self, parts: Sequence[str]) -> Place:
        found = match(parts[0])
        if found is None:
            return Place(path=tuple(parts), why="Its name is none that Canvas gives.")
        person = Person(key=found["id"], best_id=found["id"], name=found["name"] or "", platform_id=found["id"])
        late = found["late"] is not None
        if "file" not in found.re.groupindex:
            return Place((person,), tuple(parts[1:]), late=late, why=_NOT_A_FILE)
        return Place((person,), (found["file"], *parts[1:]), number=int(found["upload"]), late=late)
