"""The class on one static HTML page, for its instructor."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from gpututor.classroom.feedback import SubmittedLines
from gpututor.classroom.gradebook.exports.export import Export, ExportRequest, write_text
from gpututor.classroom.gradebook.model import Gradebook, GradebookWarning
from gpututor.classroom.html_report import sections, times
from gpututor.classroom.html_report.sections import text
from gpututor.classroom.rules import course_of

_PARTS = (
    ("overview", "Class", sections.overview),
    ("questions", "Open questions", sections.questions),
    ("exercises", "Exercises", sections.exercises),
    ("checks", "Checks", sections.failed_checks),
    ("timings", "Times", times.timings),
    ("leaderboard", "Leaderboards", times.leaderboard),
    ("marks", "Marks", sections.marks_table),
)
"""Id, title in the navigation, and maker of each section but the students' reports."""


def page(gradebook: Gradebook, lines: SubmittedLines, title: str, made: datetime) -> str:
    """Return the whole page. `title`: the course's; `made`: the current time, with a time zone."""
    parts = {(id, words): make(gradebook) for id, words, make in _PARTS}
    parts["reports", "Reports"] = sections.reports(gradebook, lines)
    body = "\n".join(filter(None, parts.values()))
    links = "".join(f'<a href="#{id}">{text(words)}</a>' for (id, words), part in parts.items() if part)
    content = f"""<header>
<h1>{text(title)}</h1>
<p>Marks of the class, <time datetime="{made.isoformat(timespec="minutes")}">{made:%d %B %Y, %H:%M %Z}</time>.
For its instructors: it names hidden checks.</p>
<nav aria-label="Parts of this page">{links}</nav>
</header>
<main>
{body}
</main>"""
    return document(f"{title}: marks", content, _part("script.js"))


def document(title: str, body: str, script: str = "") -> str:
    """Return a page with the common look, which loads nothing. `title`: plain text; `body`: HTML."""
    style = _part("look.css")
    policy = f"default-src 'none'; style-src '{_hash(style)}'"
    if script:
        policy += f"; script-src '{_hash(script)}'"
        body += f"\n<script>{script}</script>"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<title>{text(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def _part(name: str) -> str:
    return (resources.files("gpututor.classroom.html_report") / name).read_text(encoding="utf-8")


def _hash(part: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}"


def _write(request: ExportRequest) -> list[GradebookWarning]:
    gradebook, class_ = request.gradebook, request.gradebook.class_
    course = course_of(class_)
    title = (course.title if course is not None else "") or Path(class_.course).name or "Course"
    lines = SubmittedLines(request.folder, gradebook.without_names)
    write_text(request.path, page(gradebook, lines, title, datetime.now(UTC)))
    return []


HTML = Export("html", "one page without links to other files; for you, not for students", "index.html", _write)
