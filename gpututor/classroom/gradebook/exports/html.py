"""The class on one static HTML page, for its instructor."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from gpututor.classroom import html_report as parts_of_page
from gpututor.classroom.feedback import SubmittedLines
from gpututor.classroom.gradebook.exports.export import Export, ExportRequest, write_text
from gpututor.classroom.gradebook.model import Gradebook, GradebookWarning
from gpututor.classroom.html_report.sections import (
    exercises,
    failed_checks,
    marks_table,
    overview,
    questions,
    reports,
    text,
    timings,
)
from gpututor.classroom.rules import course_of

_LINKS = (
    ("overview", "Class"),
    ("questions", "Open questions"),
    ("exercises", "Exercises"),
    ("checks", "Checks"),
    ("timings", "Times"),
    ("marks", "Marks"),
    ("reports", "Reports"),
)


def page(gradebook: Gradebook, lines: SubmittedLines, title: str, made: datetime) -> str:
    """Return the whole page. `title`: the course's; `made`: the current time, with a time zone."""
    sections = [make(gradebook) for make in (overview, questions, exercises, failed_checks, timings, marks_table)]
    body = "\n".join(filter(None, [*sections, reports(gradebook, lines)]))
    links = "".join(f'<a href="#{id}">{text(words)}</a>' for id, words in _LINKS if f'<section id="{id}"' in body)
    style, script = _part("look.css"), _part("script.js")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<title>{text(title)}: marks</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{text(title)}</h1>
<p>Marks of the class, <time datetime="{made.isoformat(timespec="minutes")}">{made:%d %B %Y, %H:%M %Z}</time>.
For its instructors: it names hidden checks.</p>
<nav aria-label="Parts of this page">{links}</nav>
</header>
<main>
{body}
</main>
<script>{script}</script>
</body>
</html>
"""


def _part(name: str) -> str:
    return (resources.files(parts_of_page) / name).read_text(encoding="utf-8")


def _hash(part: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}"


def _write(request: ExportRequest) -> list[GradebookWarning]:
    class_ = request.gradebook.class_
    course = course_of(class_)
    title = (course.title if course is not None else "") or Path(class_.course).name or "Course"
    write_text(request.path, page(request.gradebook, SubmittedLines(request.folder), title, datetime.now(UTC)))
    return []


HTML = Export("html", "one page without links to other files; for you, not for students", "index.html", _write)
