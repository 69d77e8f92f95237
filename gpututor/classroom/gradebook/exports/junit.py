"""The gradebook as JUnit XML for CI: a suite for each student and a case for each check, hidden checks included."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from gpututor.classroom.gradebook.exports.export import Export, text_writer
from gpututor.classroom.gradebook.model import CheckMark, Gradebook, Mark, MarkStatus
from gpututor.grading.report import Outcome, Status, Verdict
from gpututor.text import escape_control_chars

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow."""
_ENDED_EARLY = (Outcome.ERROR, Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY, Outcome.CRASHED)
_COUNTS = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
_TAGS = {Status.FAILED: "failure", Status.TOO_SLOW: "failure", Status.PASSED: ""}
_TAGS |= {Status.NOT_RUN: "skipped", Status.HELD_BACK: "skipped"}


def junit(gradebook: Gradebook) -> str:
    """Return the document."""
    root = ET.Element("testsuites", name="gpututor")
    for marks in gradebook.students:
        suite = ET.SubElement(root, "testsuite", name=legal(marks.student.id))
        for mark in marks.marks:
            suite.extend(_cases(mark))
        reports = [mark.counted.report for mark in marks.marks if mark.counted is not None]
        suite.set("time", f"{sum(report.elapsed_s for report in reports if report is not None):.3f}")
    for element in (root, *root):
        for attribute, tag in _COUNTS.items():
            element.set(attribute, str(sum(1 for _ in element.iter(tag))))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def legal(text: str) -> str:
    """Escape control characters, and remove those that XML does not allow."""
    return text if text.isprintable() and text.isascii() else _ILLEGAL.sub("", escape_control_chars(text))


def _cases(mark: Mark) -> Iterator[ET.Element]:
    """Yield a case for each check; a single case if nothing was checked."""
    counted = mark.counted
    if mark.by_hand is not None:
        case = _case(mark.exercise, "mark by hand", "", "", "")
        ET.SubElement(case, "system-out").text = legal(mark.by_hand_words)
        yield case
    if counted is None or not counted.checks or mark.status in (MarkStatus.REFUSED, MarkStatus.NOT_GRADED):
        tag = {MarkStatus.FINAL: "", MarkStatus.NOT_HANDED_IN: "skipped"}.get(mark.status, "error")
        yield _case(mark.exercise, "handed in", tag, mark.status.value, mark.reason)
        return
    verdicts = counted.report.verdicts if counted.report is not None else ()
    for check in counted.checks:
        tag, message = _tag(check, counted.outcome)
        words = "\n\n".join(_describe(verdict) for verdict in verdicts if verdict.check == check.check)
        yield _case(mark.exercise, check.check, tag, message, "" if tag == "skipped" else words)


def _tag(check: CheckMark, outcome: Outcome | None) -> tuple[str, str]:
    if check.status is Status.FAILED and check.check in ("loads", "runs") and outcome in _ENDED_EARLY:
        return "error", str(outcome)
    return _TAGS.get(check.status, "error"), check.status.value


def _describe(verdict: Verdict) -> str:
    details = {"line": verdict.line, "expected": verdict.expected, "got": verdict.got}
    lines = [f"{label}: {value}" for label, value in details.items() if value]
    return "\n".join([f"{verdict.scenario}: {verdict.status}: {verdict.sentence}", *lines])


def _case(exercise: str, name: str, tag: str, message: str, text: str) -> ET.Element:
    case = ET.Element("testcase", classname=legal(exercise), name=legal(name))
    if tag:
        attributes = ("message",) if tag == "skipped" else ("message", "type")
        ET.SubElement(case, tag, dict.fromkeys(attributes, legal(message))).text = legal(text) or None
    return case


JUNIT = Export("junit", "JUnit XML: a suite for each student, a case for each check", "junit.xml", text_writer(junit))
