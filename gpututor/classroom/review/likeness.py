"""Items of the review list about texts that are alike."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.handed_in import HandedIn
from gpututor.classroom.review.model import Compared, Item, Kind
from gpututor.classroom.review.similar import Cluster, Text, similar, template_of, texts_of
from gpututor.course.exercise import Exercise
from gpututor.errors import CourseError
from gpututor.files import ordinary
from gpututor.grading.words import count

_CODE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Likeness:
    """Looks for texts of one exercise that are alike."""

    folder: ClassFolder
    exercise: str
    """Its key."""
    label: str
    about: Exercise | None
    """None where the course is not there: then nothing is known of what everybody was given."""

    def compared(self, files: Sequence[HandedIn], share: float) -> tuple[list[Item], Compared]:
        """`files`: all that was handed in. Returns what was found, and how it was looked for."""
        texts = texts_of(one for one in files if one.sha256 and not one.refusal)
        given = list(_given(self.about)) if self.about is not None else []
        found = similar(texts, self._read, template_of(given), share)
        items = [self._identical(text) for text in found.identical]
        items += [self._shared_by_many(crowd) for crowd in found.crowds]
        items += [self._alike(cluster) for cluster in found.clusters]
        how = Compared(
            exercise=self.exercise,
            label=self.label,
            texts=found.texts,
            compared=found.compared,
            fingerprints=found.fingerprints,
            common=found.common,
            solutions=self._solutions(texts),
        )
        return items, how

    def _identical(self, text: Text) -> Item:
        people = len(text.parties)
        why = (
            f"{people} people handed in the same text, to the letter. They may have worked together, or have a source."
        )
        return self._item(Kind.IDENTICAL, text.files, why, f"less {self._path(text)}")

    def _alike(self, cluster: Cluster) -> Item:
        each = "" if len(cluster.texts) == 2 else "; each is like one of the others, not always like all"
        why = (
            f"{count(len(cluster.texts), 'text')} have {_much(cluster)} of their fingerprints in common, beside what "
            f"everybody was given{each}. The solution may suggest itself, or they may have worked together."
        )
        return self._of_cluster(cluster, why)

    def _shared_by_many(self, crowd: Cluster) -> Item:
        why = (
            f"{count(len(crowd.texts), 'text')} of {crowd.people} people have {_much(crowd)} of their fingerprints in "
            "common with the same one of them, beside what everybody was given. So many share it that the solution may "
            "suggest itself, or they may have one source."
        )
        return self._of_cluster(crowd, why)

    def _of_cluster(self, cluster: Cluster, why: str) -> Item:
        files = tuple(sorted((one for text in cluster.texts for one in text.files), key=_who))
        one, other = cluster.nearest
        return self._item(Kind.ALIKE, files, why, f"diff -u {self._path(one)} {self._path(other)} | less")

    def _item(self, kind: Kind, files: tuple[HandedIn, ...], why: str, command: str) -> Item:
        return Item(kind, self.exercise, self.label, files, files[0].source, why, command)

    def _path(self, text: Text) -> str:
        return shlex.quote(str(self.folder.submission(text.sha256)))

    def _read(self, sha256: str) -> str | None:
        try:
            with open(self.folder.submission(sha256), "rb", opener=ordinary) as stream:
                return stream.read().decode(errors="replace")
        except OSError:
            return None

    def _solutions(self, texts: Sequence[Text]) -> int:
        """How many people handed in the course's solution."""
        try:
            solution = self.about.solution if self.about is not None else ""
        except CourseError:
            return 0
        digest = hashlib.sha256(solution.encode()).hexdigest()
        return sum(len(text.parties) for text in texts if text.sha256 == digest)


def _much(cluster: Cluster) -> str:
    least, greatest = f"{cluster.least:.0%}", f"{cluster.greatest:.0%}"
    return least if least == greatest else f"{least} to {greatest}"


def _who(one: HandedIn) -> tuple[str, int]:
    return one.student, one.attempt


def _given(exercise: Exercise) -> Iterator[str]:
    """What is nobody's own: the starter, code that students are shown, the solutions, and mistakes that many make."""
    names = ["starter.py", "solution.py", "task.md", "hints.md", "../lesson.md"]
    names += [f"{path.parent.name}/{path.name}" for path in (*exercise.right_solutions, *exercise.wrong_solutions)]
    for name in names:
        try:
            text = exercise.file(name)
        except CourseError:
            continue
        if name.endswith(".md"):
            yield from _CODE.findall(text)
        else:
            yield text
