"""The errors that a person is meant to read: what is wrong, and what to do about it."""

from __future__ import annotations


class TutorError(Exception):
    """A fault with words for a person.

    `title` says what is wrong in one sentence; `advice` says what to do; `exit_code` is what a plain verb ends with.
    """

    exit_code = 2

    def __init__(self, title: str, advice: str = "") -> None:
        super().__init__(title)
        self.title = title
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.title}\n{self.advice}" if self.advice else self.title


class UsageError(TutorError):
    """A verb was called with words that it does not know."""


class CourseError(TutorError):
    """A mistake in a file of the course. Its title starts with the file's path."""


class WorkspaceError(TutorError):
    """The learner's folder, or a file of theirs, cannot be found, read or written."""


class ProgressError(TutorError):
    """The progress database cannot be read or written."""


class NotGradableHere(TutorError):
    """This machine lacks what the exercise needs."""

    exit_code = 3


class GradingError(TutorError):
    """The grader itself broke. Never the learner's fault."""

    exit_code = 4
