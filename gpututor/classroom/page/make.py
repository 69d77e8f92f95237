"""Putting the page together."""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime
from importlib import resources

from gpututor.classroom.gradebook.model import Gradebook
from gpututor.classroom.page.for_class import exercises, failed_checks, overview, questions, timings
from gpututor.classroom.page.for_each import marks_table, reports
from gpututor.classroom.page.html import text
from gpututor.classroom.submitted import SubmittedLines

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
    """The whole page. `title`: what the course is called; `made`: when, with a time zone."""
    parts = [
        overview(gradebook),
        questions(gradebook),
        exercises(gradebook),
        failed_checks(gradebook),
        timings(gradebook),
        marks_table(gradebook),
        reports(gradebook, lines),
    ]
    body = "\n".join(filter(None, parts))
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
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _hash(part: str) -> str:
    """How a policy names the one script or style that it lets in."""
    return f"sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}"
