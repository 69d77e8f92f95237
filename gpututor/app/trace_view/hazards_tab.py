"""The tab of problems: hazards, failed allocations, and advice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets.option_list import Option

from gpututor.app.trace_view.model import RunView, code_at, line_of, place_words
from gpututor.app.trace_view.tabs import ListTab
from gpututor.text import escape_control_chars
from gpututor.trace.formatting import size

if TYPE_CHECKING:
    from gpututor.app.trace_view.model import ProcessFigures
    from gpututor.trace.arrays import Place
    from gpututor.trace.memory import OutOfMemoryEvent

_PALE = "$foreground-muted"
_REMEDY_FOR_MEMORY = "Use a smaller batch or dtype, or work piece by piece, and drop tensors that are no longer needed."


@dataclass(frozen=True)
class _Entry:
    """A sentence; Enter goes to its line."""

    words: Content
    line: int | None = None
    is_text: bool = False
    """True if the cursor passes over it."""


class HazardsTab(ListTab):
    """Problems of a call as a list of sentences."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: list[_Entry] = []

    def compose(self) -> ComposeResult:
        yield self.list

    def show(self, view: RunView) -> None:
        self._entries = list(_entries(view))
        self.list.set_options(Option(entry.words, disabled=entry.is_text) for entry in self._entries)
        self.list.highlighted = next((at for at, entry in enumerate(self._entries) if not entry.is_text), None)

    def line_at(self, position: int) -> int | None:
        return self._entries[position].line


def _entries(view: RunView) -> Iterator[_Entry]:
    if view.loaded is None:
        yield _text("Reading what was recorded …")
        return
    for sentence in view.loaded.missing:
        yield _text(sentence)
    figures = view.loaded.figures
    named = [(process, f"{process.name}: " if len(figures) > 1 else "") for process in figures]
    wrong = [entry for process, prefix in named for entry in _problems(view, process, prefix)]
    if wrong:
        yield _heading("What is wrong")
        yield from wrong
    elif figures:
        yield _text("✓ No hazards: streams and the host use shared memory in a fixed order.")
        yield _text("✓ Every allocation succeeded.")
        yield _text("")
    advice = [entry for process, prefix in named for entry in _advice(view, process, prefix)]
    if advice:
        yield _heading("Most worth changing")
        yield from advice
    elif figures:
        yield _text("No advice from the trace alone; the checks in Results say more.")


def _problems(view: RunView, figures: ProcessFigures, before: str) -> Iterator[_Entry]:
    for hazard in figures.hazards:
        times = f" ({hazard.count:,} times)" if hazard.count > 1 else ""
        sentence = f"! Hazard: {before}{_words(view, hazard.sentence)}{times}."
        places = [hazard.place, *([hazard.earlier] if hazard.earlier != hazard.place else [])]
        yield _entry(view, sentence, "$text-error bold", places, hazard.what_to_do)
    for curve in figures.curves:
        by_place: dict[Place, list[OutOfMemoryEvent]] = {}
        for failure in curve.refused:
            by_place.setdefault(failure.place, []).append(failure)
        for place, failures in by_place.items():
            times = f" ({len(failures):,} times)" if len(failures) > 1 else ""
            of = f" of {size(view.run.memory_bytes)}" if view.run.memory_bytes else ""
            sentence = (
                f"✗ Out of memory: {before}{place_words(place, view.file_name)} asks "
                f"{escape_control_chars(curve.device)} for {size(failures[0].size_bytes)}{times}, "
                f"and {size(failures[0].allocated)}{of} is already allocated."
            )
            yield _entry(view, sentence, "$text-error bold", [place], _REMEDY_FOR_MEMORY)


def _advice(view: RunView, figures: ProcessFigures, before: str) -> Iterator[_Entry]:
    for number, advice in enumerate(figures.advice, 1):
        sentence = f"{number}. {before}{_words(view, advice.sentence)}"
        yield _entry(view, sentence, "bold", [advice.place], f"{advice.what_to_do} {advice.costs}".strip())


def _entry(view: RunView, sentence: str, style: str, places: list[Place], what_to_do: str) -> _Entry:
    """Return a sentence with its lines of code and the remedy."""
    parts: list[str | tuple[str, str]] = [(f"{sentence}\n", style)]
    for place in places:
        text = code_at(view, place)
        if text:
            parts.append((f"   {place_words(place, view.file_name):>8}  {text}\n", _PALE))
    parts.append(f"{escape_control_chars(what_to_do)}\n")
    line = next((line for place in places if (line := line_of(place, view.file_name)) is not None), None)
    return _Entry(Content.assemble(*parts), line)


def _words(view: RunView, sentence: str) -> str:
    """Name lines of the learner's file by their numbers alone."""
    return escape_control_chars(sentence).replace(f"{escape_control_chars(view.file_name)}:", "line ")


def _heading(words: str) -> _Entry:
    return _Entry(Content(words).stylize("$text-accent bold"), is_text=True)


def _text(words: str) -> _Entry:
    return _Entry(Content(escape_control_chars(words)), is_text=True)
