"""The gradebook as JUnit XML, for what shows the results of tests: a suite for each student, a case for each check.

It is for the instructor: hidden checks stand in it like all others.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from gpututor.classroom.gradebook.model import Attempt, CheckMark, Gradebook, Mark, Standing, StudentMarks
from gpututor.grading.report import Outcome, Status, Verdict
from gpututor.plain_text import visible

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no place for."""
_ENDED_EARLY = (Outcome.ERROR, Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY, Outcome.CRASHED)


def junit(gradebook: Gradebook) -> str:
    """The document, UTF-8."""
    root = ET.Element("testsuites", name="gpututor")
    for marks in gradebook.students:
        root.append(_suite(marks))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def legal(text: str) -> str:
    """`text` with control characters written out, and without what XML cannot have."""
    return text if text.isprintable() and text.isascii() else _ILLEGAL.sub("", visible(text))


def _suite(marks: StudentMarks) -> ET.Element:
    suite = ET.Element("testsuite", name=legal(marks.student.id))
    seconds = 0.0
    for mark in marks.marks:
        suite.extend(_cases(mark))
        if mark.counted is not None and mark.counted.report is not None:
            seconds += mark.counted.report.elapsed_s
    suite.set("tests", str(len(suite)))
    for name, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(name) is not None for case in suite)))
    suite.set("time", f"{seconds:.3f}")
    return suite


def _cases(mark: Mark) -> Iterator[ET.Element]:
    """One for each check; one in all where nothing was checked."""
    counted = mark.counted
    if counted is None or not counted.checks or mark.standing in (Standing.REFUSED, Standing.NOT_GRADED):
        case = _case(mark.exercise, "handed in")
        if mark.standing is Standing.NOT_HANDED_IN:
            _add(case, "skipped", mark.standing.value, mark.reason)
        elif mark.standing is not Standing.FINAL:
            _add(case, "error", mark.standing.value, mark.reason)
        yield case
        return
    for check in counted.checks:
        yield _check_case(mark, counted, check)


def _check_case(mark: Mark, counted: Attempt, check: CheckMark) -> ET.Element:
    case = _case(mark.exercise, check.check)
    verdicts = counted.report.verdicts if counted.report is not None else ()
    told = "\n\n".join(_in_words(verdict) for verdict in verdicts if verdict.check == check.check)
    match check.status:
        case Status.PASSED:
            pass
        case Status.FAILED if check.check in ("loads", "runs") and counted.outcome in _ENDED_EARLY:
            _add(case, "error", str(counted.outcome), told)
        case Status.FAILED | Status.TOO_SLOW:
            _add(case, "failure", check.status.value, told)
        case Status.NOT_RUN | Status.HELD_BACK:
            _add(case, "skipped", check.status.value, "")
        case _:
            _add(case, "error", check.status.value, told)
    return case


def _in_words(verdict: Verdict) -> str:
    lines = [f"{verdict.scenario}: {verdict.status}: {verdict.sentence}"]
    lines += [f"line {verdict.line}"] if verdict.line is not None else []
    lines += [f"expected: {verdict.expected}"] if verdict.expected else []
    lines += [f"got: {verdict.got}"] if verdict.got else []
    return "\n".join(lines)


def _case(exercise: str, name: str) -> ET.Element:
    return ET.Element("testcase", classname=legal(exercise), name=legal(name))


def _add(case: ET.Element, tag: str, message: str, text: str) -> None:
    element = ET.SubElement(case, tag, message=legal(message))
    if tag != "skipped":
        element.set("type", legal(message))
    if text:
        element.text = legal(text)
