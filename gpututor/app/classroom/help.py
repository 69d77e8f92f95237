"""What the instructor's screens show, and their keys."""

from __future__ import annotations

import textwrap
from functools import partial

from textual.content import Content

from gpututor.app.screens.help import TextScreen, help_line

Keys = tuple[tuple[str, str], ...]

ABOUT: dict[str, tuple[tuple[str, ...], Keys]] = {
    "The class": (
        (
            "A row for each student, a column for each exercise. ✓ passed; ✗ failed in some way; ○ open or"
            " refused: no mark yet, a person has to look; … waiting to be graded; – not handed in. ! stands where"
            " somebody should look: the Review page says why. open in the place of points: the total is not final.",
            "What you type behind / narrows the table. Each word is the beginning of one of the student (id, name,"
            " address), of the exercise, of the outcome, of a failed check, or is open, look or late. A dot stands for"
            " what does not match: `2.3 failed`, `kim`, `structure`, `open`.",
        ),
        (
            ("h j k l  ← ↓ ↑ →", "From cell to cell; g and G to the top and to the end."),
            ("Enter", "Open what was handed in there."),
            ("/", "Filter; Enter goes to the table, Esc shows all again."),
            ("s", "Order by id, by name, by points."),
            ("1 2 3  Tab", "Students, exercises, review."),
            ("F5  ^r", "Read the class again, as it is by now."),
            ("^p", "Find a command, a student or an exercise by its name."),
            ("q", "Leave."),
        ),
    ),
    "A submission": (
        (
            "Above or on the left what the checks said, beside it the text that was handed in; ✗ stands at lines that"
            " checks point at.",
            "d shows what the devices did. The class was graded without recording, so at first the submission is graded"
            " once more, with the same seed, device and isolation; what was recorded is kept. The journal stays as it"
            " is.",
            "R grades it again in the same way, and says whether it comes to the same. It has the same key in the"
            " journal: only if you say so, the new report takes the place of the old one, which is kept in replaced/.",
        ),
        (
            ("j k  g G", "From check to check."),
            ("Enter", "Go to the line that the check points at."),
            ("Space", "Open the check, or close it."),
            ("v", "Read everything in full."),
            ("Tab", "From the checks to the text, and back."),
            ("n p", "The next student's, or the one before, among those shown."),
            ("] [", "This student's next attempt, or the one before."),
            ("d", "What the devices did."),
            ("R", "Grade it again."),
            ("Esc", "Stop a grading; else back to the class."),
        ),
    ),
}


class ClassHelp(TextScreen):
    """About one of the screens."""

    def __init__(self, title: str) -> None:
        super().__init__(title, partial(_content, title))


def _content(title: str, width: int) -> Content:
    texts, keys = ABOUT[title]
    parts: list[Content | str] = []
    for text in texts:
        parts.append("\n".join(textwrap.wrap(text, max(20, width))) + "\n\n")
    parts += [help_line(*key, width) for key in keys]
    return Content.assemble(*parts)
