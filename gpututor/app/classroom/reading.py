"""Reading the class for the screen, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message

from gpututor.app.classroom.rows import ClassTable, table_of
from gpututor.classroom.gradebook.model import Gradebook
from gpututor.classroom.review import Review
from gpututor.errors import TutorError


@dataclass(frozen=True)
class Source:
    """Where the class comes from; each may take its time, and raise `TutorError`."""

    name: str
    read: Callable[[], Gradebook]
    review: Callable[[Gradebook], Review]


@dataclass
class ClassRead(Message):
    """The class was read, or could not be."""

    reading: int
    found: ClassTable | TutorError


def read_in_thread(source: Source, reading: int, post: Callable[[Message], object]) -> None:
    """Post `ClassRead` twice: without what is to be looked at, which takes longer, and with it."""
    threading.Thread(target=_read, args=(source, reading, post), daemon=True).start()


def _read(source: Source, reading: int, post: Callable[[Message], object]) -> None:
    try:
        gradebook = source.read()
        post(ClassRead(reading, table_of(gradebook)))
        post(ClassRead(reading, table_of(gradebook, source.review(gradebook))))
    except TutorError as error:
        post(ClassRead(reading, error))
    except Exception as unknown:  # files may come and go while they are read
        from gpututor.app.log import write_log

        write_log(unknown)
        post(ClassRead(reading, TutorError(f"The class could not be read: {unknown!r}", "")))
