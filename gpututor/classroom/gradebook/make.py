"""Making the gradebook."""

from __future__ import annotations

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.model import Gradebook
from gpututor.classroom.rules import Rules


def make_gradebook(folder: ClassFolder, rules: Rules) -> Gradebook:
    """Of what was handed in, the journal, and the rules: the same for the same, whenever it is made.

    Broken files of the journal are told in `notices`. Raises `UsageError` where no class was graded.
    """
    raise NotImplementedError
