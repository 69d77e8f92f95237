"""Times on the HTML report: charts of all times against the baseline's, and leaderboards, which students may see."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gpututor.classroom.gradebook.leaderboard import Leaderboard, leaderboards
from gpututor.classroom.gradebook.model import AttemptTiming, ExerciseSummary, Gradebook
from gpututor.classroom.html_report.elements import name, section, table, text
from gpututor.grading.report import Status
from gpututor.grading.report_text import GLYPHS, count

_PLOT, _DOT, _LANE = 300, 6, 56
_LANES = (
    (Status.PASSED, "good"),
    (Status.TOO_SLOW, "bad"),
    (Status.FAILED, "bad"),
    (Status.INCONCLUSIVE, "open"),
    (Status.NEEDS_REVIEW, "open"),
    (Status.HELD_BACK, "open"),
)
_STEPS = (1, 2, 5)


def timings(gradebook: Gradebook) -> str:
    figures = "\n".join(figure for exercise in gradebook.exercises for figure in _strips(exercise))
    body = f'{LEGEND}<div class="cards">{figures}</div>' if figures else ""
    return section("timings", "Times against the baseline", body)


def _strips(exercise: ExerciseSummary) -> Iterator[str]:
    by_check: dict[tuple[str, str], list[AttemptTiming]] = {}
    for timing in exercise.timings:
        by_check.setdefault((timing.check, timing.scenario), []).append(timing)
    for (check, scenario), times in by_check.items():
        median = statistics.median(timing.ratio for timing in times)
        figures = f"{count(len(times), 'time')}, fastest {times[0].ratio:.2g} ×, median {median:.2g} ×"
        facts = f'<p class="facts">{text(f"{check}, {scenario}: {figures}")}</p>'
        yield f"<article><h3>{text(exercise.numbered_title)}</h3>{facts}{strip(times)}</article>"


def strip(timings: Sequence[AttemptTiming]) -> str:
    """Draw a dot for each time, in a lane for each status: round for modelled times, square for measured ones."""
    ratios = [max(timing.ratio, 1e-6) for timing in timings]
    low, high = _range(ratios)
    lanes = [(status, look) for status, look in _LANES if any(timing.status is status for timing in timings)]
    height = len(lanes) * (_LANE + 20) + 30
    slowest, fastest = max(ratios), min(ratios)
    label = f"{count(len(timings), 'time')}, {fastest:.2g} to {slowest:.2g} × the baseline's"
    drawn = [f'<svg class="strip" viewBox="0 0 {_PLOT + 30} {height}" role="img" aria-label="{text(label)}">']
    base = height - 26
    at = _place(1.0, low, high)
    drawn.append(f'<path class="baseline" d="M{at:g} 0V{base}"/>')
    columns = {(status, is_measured): Counter[int]() for status, _ in lanes for is_measured in (False, True)}
    for timing, ratio in zip(timings, ratios, strict=True):
        columns[timing.status, timing.is_measured][round(_place(ratio, low, high) / _DOT)] += 1
    tallest = max((max((columns[status, False] + columns[status, True]).values()) for status, _ in lanes), default=1)
    step = min(_DOT + 0.5, (_LANE - _DOT) / max(tallest - 1, 1))
    for row, (status, look) in enumerate(lanes):
        modelled, measured = columns[status, False], columns[status, True]
        floor = (row + 1) * (_LANE + 20) - 4
        words = f"{GLYPHS[status]} {status.value} ({modelled.total() + measured.total()})"
        drawn.append(f'<text x="2" y="{floor - _LANE - 4}">{words}</text>')
        for kind, counts, below in (("modelled", modelled, Counter[int]()), ("measured", measured, modelled)):
            if dots := _dots(counts, below, floor - _DOT / 2, step):
                drawn.append(f'<path class="dots {kind} {look}" d="{dots}"/>')
    drawn.append(f'<path class="axis" d="M14 {base}H{_PLOT + 16}"/>')
    for ratio in _ticks(low, high):
        x = _place(ratio, low, high)
        drawn.append(
            f'<path class="axis" d="M{x:g} {base}v4"/><text class="tick" x="{x:g}" y="{base + 17}">{ratio:g} ×</text>'
        )
    return "".join([*drawn, "</svg>"])


def _sign(kind: str) -> str:
    return f'<svg viewBox="0 0 12 12" aria-hidden="true"><path class="dots {kind}" d="M6 6h0"/></svg>'


LEGEND = (
    f'<p class="legend">{_sign("modelled")} modelled by the virtual GPU, {_sign("measured")} measured on a device. '
    "The dashed line is the baseline's time; further to the left is faster.</p>"
)


def _dots(counts: Counter[int], below: Counter[int], floor: float, step: float) -> str:
    """Stack dots of about the same ratio on each other and on those `below`; skip dots that others would hide."""
    return "".join(
        f"M{column * _DOT} {floor - (below[column] + place) * step:.4g}h0"
        for column, dots in sorted(counts.items())
        for place in range(0, dots, math.ceil(dots / (4 * _LANE)))
    )


def _range(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the logarithms of the least and largest ratio on the axis: at least half to double the baseline's."""
    return math.log10(min(*ratios, 0.5)) - 0.05, math.log10(max(*ratios, 2.0)) + 0.05


def _place(ratio: float, low: float, high: float) -> float:
    return round(15 + _PLOT * (math.log10(ratio) - low) / (high - low), 1)


def _ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(low), math.ceil(high) + 1)
    every = [step * 10.0**power for power in powers for step in _STEPS if low <= math.log10(step * 10.0**power) <= high]
    if len(every) <= 6:
        return every
    tens = [10.0**power for power in powers if low <= power <= high]
    stride = math.ceil(len(tens) / 6)
    return [ratio for ratio in tens if round(math.log10(ratio)) % stride == 0]


_NOTE = (
    "Each student's fastest passing submission. A time is divided by the baseline's, in the slowest scenario: smaller "
    "is faster. Equal times share a place."
)
_HEADERS = ("Student", "Time")
_SHOWN = 10
"""Places of a leaderboard that are shown at once."""


def leaderboard(gradebook: Gradebook) -> str:
    """Return the section of the class's page; empty without any leaderboard."""
    names = {marks.student.id: marks.student.called for marks in gradebook.students}
    return section("leaderboard", "Leaderboards", *_parts(leaderboards(gradebook), names))


def student_page_body(boards: Sequence[Leaderboard], names: Mapping[str, str], title: str) -> str:
    """Return the body of a page for students. `names`: the shown texts by the students' ids."""
    content = section("leaderboard", "Leaderboards", *_parts(boards, names))
    return f"<header>\n<h1>{text(title)}</h1>\n</header>\n<main>\n{content}\n</main>"


def _parts(boards: Sequence[Leaderboard], names: Mapping[str, str]) -> list[str]:
    if not boards:
        return []
    cards = "\n".join(_card(board, names) for board in boards)
    return [f'<p class="legend">{text(_NOTE)}</p>', f'<div class="cards">{cards}</div>']


def _card(board: Leaderboard, names: Mapping[str, str]) -> str:
    rows = [
        (f"{entry.place}. {name(names.get(entry.student, entry.student))}", f"{entry.ratio:.2f}\u00a0×")
        for entry in board.places
    ]
    first = table(f"Leaderboard of {board.title}", _HEADERS, rows[:_SHOWN], "numbers")
    rest = ""
    if more := rows[_SHOWN:]:
        places = table(f"Places after {_SHOWN} of {board.title}", _HEADERS, more, "numbers")
        rest = f"<details><summary>{len(more)} more</summary>{places}</details>"
    facts = f'<p class="facts">{text(board.timed.words)}</p>'
    return f"<article><h3>{text(board.exercise.numbered_title)}</h3>{facts}{first}{rest}</article>"
