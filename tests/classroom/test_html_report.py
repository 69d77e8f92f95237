"""The HTML page: complete, self-contained, safe for any text, and open only as far as students may know."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from importlib import resources
from itertools import product
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import HealthCheck, example, given, settings

from gpututor.classroom.feedback import MORE_CHECKS, SubmittedLines
from gpututor.classroom.folder import ClassFolder
from gpututor.classroom.gradebook.exports.html import page
from gpututor.classroom.gradebook.model import AttemptTiming, Gradebook
from gpututor.classroom.html_report import sections
from gpututor.classroom.html_report.elements import distribution
from gpututor.classroom.html_report.times import strip
from gpututor.classroom.misconceptions import Misconception, WrongSolution
from gpututor.classroom.rules import ExerciseRules, Rules
from gpututor.classroom.submissions import Student, Submission, Unmatched
from gpututor.grading.report import RunSummary, Status
from tests.support.gradebooks import EXERCISE, OTHER, Upload, gradebook, points, report, verdict
from tests.support.report_strategies import TEXTS

MADE = datetime(2026, 3, 2, 10, 30, tzinfo=UTC)
NOWHERE = SubmittedLines(ClassFolder(Path("nowhere")))
HIDING = Rules(exercises=MappingProxyType({EXERCISE: ExerciseRules(hidden=("secret",))}))
VOID = {"meta", "input"}


@dataclass
class Read(HTMLParser):
    """Tags, attributes and texts of a page. A tag that is not closed in order is an error."""

    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]


def read(html: str) -> Read:
    reader = Read()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def made(book: Gradebook, title: str = "Course") -> str:
    return page(book, NOWHERE, title, MADE)


def part(html: str, id: str) -> str:
    return html.partition(f'<section id="{id}"')[2].partition("</section>")[0]


def book(text: str = "x") -> Gradebook:
    """Make a gradebook with `text` in all texts of other people."""
    failed = verdict(f"c{text}", Status.FAILED, sentence=text, expected=f"{text}x", got=f"{text}x", line=3)
    slow = verdict("speed", Status.TOO_SLOW, measured="1.50 × the baseline's time", got=f"{text}x")
    graded = replace(
        report(verdict("parity", sentence=text), failed, slow, suspicions=(f"{text}x",)),
        runs=(RunSummary("one GPU", text, False, output=text, times="measured"),),
    )
    files = [Upload(f"kim{text}", graded), Upload("lee", points(1, 2)), Upload("lee", None, OTHER, refusal=f"{text}x")]
    made = gradebook(files, students=[Student(f"kim{text}", f"¿{text}")])
    unmatched = (Unmatched(f"{text}x", f"{text}x"),)
    return replace(made, class_=replace(made.class_, unmatched=unmatched))


def check_links(reader: Read) -> None:
    ids = reader.values("id")
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in reader.values("href")} <= set(ids)


def test_the_page_is_complete_and_its_policy_allows_only_its_own_parts() -> None:
    html = made(book())
    reader = read(html)
    assert html.startswith("<!DOCTYPE html>")
    check_links(reader)
    assert {"#questions", "#reports", "#s0", "#s0e0"} <= set(reader.values("href"))
    assert not {name for _, name, _ in reader.attributes if name.startswith("on")} | set(reader.values("src"))
    assert reader.values("style") == []
    assert len(reader.values("aria-label")) > 4
    assert {tag for tag, name, _ in reader.attributes if name == "scope"} == {"th"}
    for tag in ("title", "h1", "main", "nav"):
        assert reader.tags.count(tag) == 1
    assert "://" not in html.replace(" ", "")
    reader = read(made(book()))
    policy = next(value for value in reader.values("content") if "default-src" in value)
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (content,) = reader.texts[tag]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert reader.tags.count("caption") == reader.tags.count("table") >= 4
    assert {"Marks", "Checks most often failed", "Marks still to be decided"} <= set(reader.texts["caption"])


@given(TEXTS)
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@example("<script>alert(1)</script>")
@example("</title></style></script></details></section><h1>")
@example("\" onclick='x' autofocus=\"")
@example("<!-- ]]> <![CDATA[ &lt;&#60; &amp")
@example("\u202egnp.exe\u2066\x00\x1b[31m\r\n\ud800")
def test_no_text_becomes_markup(text: str) -> None:
    html = made(book(text), text)
    html.encode()
    reader, plain = read(html), read(made(book(), "x"))
    assert reader.tags == plain.tags
    assert [(tag, name) for tag, name, _ in reader.attributes] == [(tag, name) for tag, name, _ in plain.attributes]
    assert not re.search("[\u202e\u2066\x00\x1b\ud800]", html)


def test_a_report_has_its_findings_and_hides_what_students_may_not_know() -> None:
    failed = verdict("syncs", Status.FAILED, expected="1 wait", got="5 waits", line=7)
    html = part(made(gradebook([Upload("kim", report(verdict("parity"), failed))])), "reports")
    assert "✗ Failed: 1 of 2 " in html
    assert "<dt>Expected</dt><dd>1 wait</dd><dt>Got</dt><dd>5 waits</dd><dt>Line 7</dt>" in html
    assert '<span class="good">✓ passed</span>: parity' in html
    reader = read(made(gradebook([])))
    assert reader.values("href") == ["#overview"]
    graded = report(verdict("parity"), verdict("secret", Status.FAILED, got="GOT"), suspicions=("SUSPICION",))
    html = made(gradebook([Upload("kim", graded)], HIDING))
    reports = part(html, "reports")
    assert "○ Under review" in reports
    assert "parity" not in reports
    assert MORE_CHECKS in reports
    for word in ("secret", "GOT", "SUSPICION"):
        assert word not in reports
    assert "hidden from students" in part(html, "checks")
    assert "SUSPICION" in part(html, "questions")
    open_mark = report(verdict("speed", Status.INCONCLUSIVE))
    files = [Upload("ann", points(3, 4)), Upload("kim", open_mark), Upload("lee", None, refusal="It is too large.")]
    html = made(gradebook(files, students=[Student("moe")]))
    cells = re.findall(r'<td class="(\w+)">(?:<a href="#\w+">)?([^<]+)', part(html, "marks"))
    assert cells == [("q2", "3"), ("open", "open"), ("open", "rejected"), ("none", "–")]
    assert "It is too large." in part(html, "questions")
    assert html.count('data-state="open"') == 2 * 2


def test_misconceptions_name_their_students_and_link_to_them() -> None:
    failed = report(verdict("parity", Status.FAILED))
    students = [f"student {number:02}" for number in range(sections.MOST_NAMES + 2)]
    wrong = WrongSolution(Submission("", EXERCISE, "wrong/<i>.py", "0"), "It <b>waits</b>.")
    compared = [Misconception(EXERCISE, (wrong,), tuple(students[1:])), Misconception(EXERCISE, (), ("student 00",))]
    made = page(gradebook([Upload(student, failed) for student in students]), NOWHERE, "Course", MADE, compared)
    check_links(read(made))
    table = part(made, "misconceptions")
    assert "It &lt;b&gt;waits&lt;/b&gt;. (wrong/&lt;i&gt;.py)" in table
    assert re.findall(r"</svg>(\d+ of \d+)<", table) == ["13 of 14", "1 of 14"]
    assert re.findall(r'<a href="#s(\d+)e0">', table) == [*map(str, range(1, 13)), "0"]
    assert ", 1 more<" in table
    assert part(page(gradebook([]), NOWHERE, "Course", MADE), "misconceptions") == ""


def test_the_page_is_bounded_for_large_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "MOST_BYTES", 1)
    monkeypatch.setattr(sections, "MOST_ROWS", 2)
    long = verdict("parity", Status.FAILED, got="y" * 5000)
    reviewed = report(long, verdict("x", Status.INCONCLUSIVE))
    uploads = [Upload("ann", report(long)), *(Upload(name, reviewed) for name in ("kim", "lee", "moe"))]
    html = made(gradebook(uploads))
    check_links(read(html))
    assert html.count("yyy") > 1
    assert "y" * sections.LONGEST not in html
    assert part(html, "reports").count("gpututor classroom feedback") == 3
    assert "1 mark more." in html


def test_a_section_without_a_final_total_has_no_mean() -> None:
    open_mark = replace(gradebook([Upload("kim", None)]), has_roster=True)
    in_section = replace(open_mark, students=(replace(open_mark.students[0], section="Monday"),))
    assert "–" in part(made(in_section), "overview")


def test_charts_have_lanes_bounds_and_a_text_alternative() -> None:
    chart = distribution((1, 0, 0, 0, 0, 0, 0, 0, 0, 2), "mark")
    (words,) = re.findall('aria-label="([^"]*)"', chart)
    assert re.findall(r"\d+", words) == ["3", "1", "0", "10", "2", "90", "100"]
    read(distribution((0,) * 10, "mark"))
    svg = strip(
        [timing(0.5, Status.PASSED, True), timing(0.5, Status.PASSED, False), timing(4, Status.TOO_SLOW, False)]
    )
    assert "○ held back (1)" in strip([timing(0.5, Status.HELD_BACK, False)])
    read(svg)
    measured, modelled = (re.findall(rf'class="dots {kind} good" d="M(\d+) ([\d.]+)h0"', svg) for kind in FORMS)
    assert measured[0][0] == modelled[0][0]
    assert float(measured[0][1]) < float(modelled[0][1]), "the measured dot is above the modelled one"
    assert "✓ passed (2)" in svg
    assert "✗ too slow (1)" in svg
    assert 'class="dots modelled bad"' in svg
    assert "3 times, 0.5 to 4 " in svg
    every = [timing(ratio, Status.PASSED, False) for ratio in (0.0, 1e-9, 1e9, *[1.0] * 5000)]
    svg = strip(every)
    read(svg)
    assert len(svg) < 10_000
    numbers = [float(number) for number in re.findall(r"[ MV]([-\d.]+)", svg)]
    assert all(-1 <= number <= 400 for number in numbers)


FORMS = ("measured", "modelled")


def timing(ratio: float, status: Status, is_measured: bool) -> AttemptTiming:
    return AttemptTiming("kim", "speed", "one GPU", ratio, status, is_measured, "")


def colors() -> Iterator[dict[str, str]]:
    style = (resources.files("gpututor.classroom.html_report") / "look.css").read_text()
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    for scheme in (light, dark):
        yield dict(re.findall(r"--(\w+): (#\w{6})", scheme))


def brightness(color: str) -> float:
    """WCAG's relative luminance."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(graded: str, other: str) -> float:
    low, high = sorted((brightness(graded), brightness(other)))
    return (high + 0.05) / (low + 0.05)


def test_colors_have_enough_contrast_in_light_and_dark() -> None:
    for scheme in colors():
        texts = product(("text", "quiet", "accent", "good", "bad", "open"), ("ground", "panel"))
        shades = product(("text",), ("q0", "q1", "q2", "q3", "q4", "o"))
        for front, back in (*texts, *shades):
            assert contrast(scheme[front], scheme[back]) >= 4.5, (front, back)
        assert contrast(scheme["bar"], scheme["panel"]) >= 3
