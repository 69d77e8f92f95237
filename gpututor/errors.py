"""Errors for users: a title that says what is wrong, and advice."""

from __future__ import annotations


class TutorError(Exception):
    """An error for the user: `title` says what is wrong, `advice` what to do; the command ends with `exit_code`."""

    exit_code = 2

    def __init__(self, title: str, advice: str = "") -> None:
        super().__init__(title)
        self.title = title
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.title}\n{self.advice}" if self.advice else self.title


class UsageError(TutorError):
    """An invalid option or argument."""


class CourseError(TutorError):
    """A mistake in a file of the course. Its title starts with the file's path."""


class WorkspaceError(TutorError):
    """The learner's folder, or a file in it, cannot be found, read or written."""


class ProgressError(TutorError):
    """The progress database cannot be read or written."""


class NotGradableHere(TutorError):
    """This machine lacks what the exercise needs."""

    exit_code = 3


class GradingError(TutorError):
    """The grader itself failed: never the learner's fault."""

    exit_code = 4


class NoEditor(UsageError):
    """No setting and no variable names the learner's own editor."""
