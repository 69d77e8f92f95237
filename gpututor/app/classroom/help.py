"""What the instructor's screens show, and their keys."""

from __future__ import annotations

import textwrap
from functools import partial

from textual.content import Content

from gpututor.app.commands import help_keys
from gpututor.app.screens.help import TextScreen, help_line

ABOUT = {
    "class": (
        "The class",
        (
            "A row for each student, a column for each exercise. ✓ passed; ✗ failed in some way; ○ open or"
            " refused: no mark yet, a person has to look; … waiting to be graded; – not handed in. ! stands where"
            " somebody should look: the Review page says why. open in the place of points: the total is not final.",
            "What you type behind / narrows the table. Each word is the beginning of one of the student (id, name,"
            " address), of the exercise, of the outcome, of a failed check, or is open, look or late. A dot stands for"
            " what does not match: `2.3 failed`, `kim`, `structure`, `open`.",
        ),
    ),
    "submission": (
        "A submission",
        (
            "Above or on the left what the checks said, beside it the text that was handed in; ✗ stands at lines that"
            " checks point at.",
            "d shows what the devices did. The class was graded without recording, so at first the submission is graded"
            " once more, with the same seed, device and isolation; what was recorded is kept. The journal stays as it"
            " is.",
            "R grades it again in the same way, and says whether it comes to the same. It has the same key in the"
            " journal: only if you say so, the new report takes the place of the old one, which is kept in replaced/.",
        ),
    ),
}
"""Title and paragraphs about each screen."""


def class_help(screen: str) -> TextScreen:
    """Explain one of the screens in `ABOUT`, and list its keys."""
    return TextScreen(ABOUT[screen][0], partial(_content, screen))


def _content(screen: str, width: int) -> Content:
    parts: list[Content | str] = []
    for text in ABOUT[screen][1]:
        parts.append("\n".join(textwrap.wrap(text, max(20, width))) + "\n\n")
    parts += [help_line(*key, width) for key in help_keys(screen)]
    return Content.assemble(*parts)
