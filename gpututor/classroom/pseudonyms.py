"""Pseudonyms: a class without names, for reports that people outside of the course may see.

Names are replaced in the class, the rules, the history and the reports before the gradebook is made. So the code that
writes tables and pages needs no special case.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import PurePosixPath

from gpututor.classroom.history import HistoryEntry
from gpututor.classroom.roster import folded
from gpututor.classroom.rules import Rules
from gpututor.classroom.submissions import Class, Student, Submission, Unmatched
from gpututor.course.notebooks import ENDING
from gpututor.grading.report import Report, Verdict

UNKNOWN = "not in the class"
"""Text in place of an id that no student of the class has."""
_PREFIX = "student-"
_DIGITS = 8
_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_LEAST_LETTERS, _LEAST_DIGITS = 3, 5
"""Least length of a word, and of a number, that is replaced in texts: shorter ones mostly have another meaning."""


class Pseudonyms:
    """The pseudonyms of a class: those of the roster, and made-up ones for all other students."""

    def __init__(
        self,
        salt: Callable[[], bytes],
        students: Iterable[Student],
        chosen: Mapping[str, str],
        also_called: Iterable[Student] = (),
    ) -> None:
        """Prepare the pseudonyms of `students`.

        `salt`: returns the key of made-up pseudonyms, when they are first needed. `chosen`: the roster's, by ids.
        `also_called`: the same students with other ids and names, such as the platform's.
        """
        self._salt = salt
        self._chosen = {id: name for id, name in chosen.items() if name}
        self._students = tuple(students)
        self._also_called = tuple(also_called)

    @cached_property
    def _by_id(self) -> dict[str, str]:
        made_up = [student.id for student in self._students if student.id not in self._chosen]
        if not made_up:
            return dict(self._chosen)
        salt = self._salt()
        digests = {id: hmac.new(salt, id.encode(errors="surrogatepass"), hashlib.sha256).hexdigest() for id in made_up}
        digits = _DIGITS
        while len({digest[:digits] for digest in digests.values()}) < len(digests):
            digits += 1
        return {**self._chosen, **{id: _PREFIX + digest[:digits] for id, digest in digests.items()}}

    @cached_property
    def _by_word(self) -> dict[str, dict[str, str]]:
        """Pseudonyms by real names, and these by their first words; the longest names first."""
        words: dict[str, dict[str, str]] = defaultdict(dict)
        for real, id in sorted(self._real_names(), key=lambda pair: -len(pair[0])):
            least = _LEAST_DIGITS if real.isdecimal() else _LEAST_LETTERS
            if len(real) >= least and (first := _WORD.match(real)):
                words[folded(first[0])].setdefault(folded(real), self.of(id))
        return words

    def _real_names(self) -> Iterator[tuple[str, str]]:
        """Yield each id, name and address with the student's id."""
        for student in (*self._students, *self._also_called):
            for real in (student.id, *_orders(student.name), student.email, student.platform_id):
                yield unicodedata.normalize("NFC", real), student.id

    @cached_property
    def _parts(self) -> frozenset[str]:
        return frozenset(part for real, _ in self._real_names() for part in _LETTERS.findall(folded(real)))

    def of(self, student: str) -> str:
        """Return the pseudonym of a student's id; `UNKNOWN` if the class has no such student."""
        return self._by_id.get(student, UNKNOWN)

    def id_of(self, pseudonym: str) -> str:
        """Return the id of a student of the class by the pseudonym."""
        return self._ids[pseudonym]

    @cached_property
    def _ids(self) -> dict[str, str]:
        return {pseudonym: id for id, pseudonym in self._by_id.items()}

    def of_name(self, words: str) -> str:
        """Return the pseudonym of a student's id, name or address; other words unchanged."""
        return self._by_id.get(words) or self.text(words)

    def text(self, words: str) -> str:
        """Replace ids, full names and addresses of students in a text."""
        words = unicodedata.normalize("NFC", words)
        parts, done = [], 0
        for match in _WORD.finditer(words):
            start = match.start()
            if start < done:
                continue
            for real, pseudonym in self._by_word.get(folded(match[0]), {}).items():
                end = _end_of(words, start, len(real))
                if folded(words[start:end]) == real and not words[end : end + 1].isalnum():
                    parts += [words[done:start], pseudonym]
                    done = end
                    break
        return "".join([*parts, words[done:]])

    def words_without_names(self, words: Iterable[str]) -> tuple[str, ...]:
        """Leave out words that have any part of a student's name, id or address."""
        return tuple(word for word in words if self._parts.isdisjoint(_LETTERS.findall(folded(word))))

    def class_(self, class_: Class) -> Class:
        """Return the class without names. The names of files become those of students and exercises."""
        students = tuple(Student(self.of(student.id)) for student in class_.students)
        submissions = tuple(self._submission(submission) for submission in class_.submissions)
        renamed: dict[str, dict[str, str]] = defaultdict(dict)
        for old, new in zip(class_.submissions, submissions, strict=True):
            renamed[old.student][old.source] = new.source
        unmatched = tuple(self._unmatched(file, place, renamed) for place, file in enumerate(class_.unmatched, 1))
        return replace(class_, students=students, submissions=submissions, unmatched=unmatched)

    def _submission(self, submission: Submission) -> Submission:
        student = self.of(submission.student)
        number = f"-{submission.attempt}" if submission.attempt > 1 else ""
        ending = PurePosixPath(submission.source).suffix
        name = submission.exercise.rpartition("/")[2]
        source = f"{student}/{name}{number}{ending if ending in ('.py', ENDING) else ''}"
        refusal, left_out = self.text(submission.refusal), tuple(map(self.text, submission.left_out))
        return replace(submission, student=student, source=source, refusal=refusal, left_out=left_out)

    def _unmatched(self, file: Unmatched, place: int, renamed: Mapping[str, Mapping[str, str]]) -> Unmatched:
        """Replace names in a file's source and explanation. `renamed`: new sources by students and old sources."""
        students = tuple(map(self.of, file.students))
        source = "/".join(filter(None, ("+".join(students), f"file {place}")))
        of_students = {old: new for student in file.students for old, new in renamed.get(student, {}).items()}
        why = file.why
        for old, new in sorted({**of_students, file.source: source}.items(), key=lambda pair: -len(pair[0])):
            why = why.replace(old, new)
        return replace(file, source=source, why=self.text(why), students=students)

    def rules(self, rules: Rules) -> Rules:
        """Return the rules with pseudonyms in their extensions."""
        extensions = (replace(extension, student=self.of(extension.student)) for extension in rules.extensions)
        return replace(rules, extensions=tuple(extensions))

    def entry(self, entry: HistoryEntry) -> HistoryEntry:
        """Return a decision of an instructor, who keeps their name."""
        return replace(entry, student=self.of(entry.student), why=self.text(entry.why))

    def report(self, report: Report) -> Report:
        """Return a report without names in texts that may quote the student's program or its output."""
        runs = (replace(run, output=self.text(run.output), traceback=self.text(run.traceback)) for run in report.runs)
        return replace(
            report,
            runs=tuple(runs),
            verdicts=tuple(map(self._verdict, report.verdicts)),
            reason=self.text(report.reason),
            suspicions=tuple(map(self.text, report.suspicions)),
        )

    def _verdict(self, verdict: Verdict) -> Verdict:
        expected, got, why, advice = map(self.text, (verdict.expected, verdict.got, verdict.why, verdict.advice))
        return replace(verdict, expected=expected, got=got, why=why, advice=advice)


def _end_of(text: str, start: int, length: int) -> int:
    """Return the end of the part of a text that has `length` characters in lower case, where `ß` becomes `ss`."""
    end = start
    while end < len(text) and length > 0:
        length -= len(text[end].casefold())
        end += 1
    return end


def _orders(name: str) -> Iterator[str]:
    """Yield the name, and its other order: `Kim Roe` and `Roe, Kim`."""
    yield name
    last, comma, first = name.partition(",")
    if comma:
        yield f"{first.strip()} {last.strip()}"
    elif len(words := name.split()) > 1:
        yield f"{words[-1]}, {' '.join(words[:-1])}"
