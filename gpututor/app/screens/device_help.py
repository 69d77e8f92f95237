"""How to read what the device screen shows, and its keys."""

from __future__ import annotations

import textwrap

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from gpututor.app.commands import Pane
from gpututor.app.screens.help import HelpScreen, help_line
from gpututor.app.widgets.device.edges import Key
from gpututor.app.widgets.plain import PlainText

ABOUT = {
    "Timeline": (
        "Time runs to the right. Each row is something that works by itself: the host, a stream of a device, an engine"
        " that copies one way. What stands above each other happened at the same time; a gap is time in which nothing"
        " was done there. The height of a bar says how much of its column's time is taken.",
        "The host only launches work: it goes on at once, unless it waits (░). A device that stands idle while the host"
        " launches has too many small kernels; one that stands idle while the host waits could have been given more.",
        "Where times are modelled, they are what the virtual GPU would have taken; nobody measured them.",
    ),
    "Memory": ("What tensors hold on a device, from the first event of the call to the last, and at which line.",),
    "Times": ("How long the calls took, beside the baseline and your other attempts.",),
    "Lines": ("What each line of your file caused: kernels, copies, waits, memory.",),
    "Hazards": ("What is wrong although the result may be right, and what is most worth changing.",),
}
"""How to read each tab, in paragraphs."""
MORE_KEYS = {
    "Timeline": (
        ("h l  j k", "As the arrow keys."),
        ("g G", "To the first and to the last event of the row."),
        ("z", "Zoom to the event."),
        ("N", "To the hazard or wait before."),
        ("Space", "From a launch to what was launched, and back."),
        ("PgUp PgDn", "Scroll the words below."),
    ),
}
"""Keys that the last line of the screen has no room for."""
OF_THE_SCREEN = (
    ("Tab  Shift+Tab", "The next tab, the one before."),
    ("c C  s S", "Another call of your function, another scenario."),
    ("r", "Back, and run the checks again."),
    ("Esc  q  d", "Back."),
)


class DeviceHelp(HelpScreen):
    """Any of its keys closes it."""

    def __init__(self, tab: str, tab_keys: list[Key], screen_keys: list[Key]) -> None:
        super().__init__(Pane.RESULTS)
        self._tab, self._tab_keys, self._screen_keys = tab, tab_keys, screen_keys

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall"):
            yield PlainText(f"{self._tab}: how to read it, and its keys", classes="title")
            with VerticalScroll(id="keys"):
                yield _Text(self._tab, self._tab_keys, self._screen_keys)
            yield PlainText("↓ ↑ Space scroll   Esc closes", classes="foot")


class _Text(Static):
    """The help, its lines broken so that the keys have a column of their own."""

    def __init__(self, tab: str, tab_keys: list[Key], screen_keys: list[Key]) -> None:
        super().__init__()
        self._tab, self._tab_keys, self._screen_keys = tab, tab_keys, screen_keys

    def on_resize(self, event: events.Resize) -> None:
        width = event.size.width
        parts: list[Content | str | tuple[str, str]] = []
        for paragraph in ABOUT[self._tab]:
            parts.append("\n".join(textwrap.wrap(paragraph, max(20, width))) + "\n\n")
        parts += [help_line(key, _sentence(words), width) for key, words in self._tab_keys if key != "Space"]
        parts += [help_line(*entry, width) for entry in MORE_KEYS.get(self._tab, ())]
        parts.append(("\nThe screen\n", "bold $text-accent"))
        known = [key for key in self._screen_keys if key[0] not in ("c", "s", "r")]
        parts += [help_line(key, _sentence(words), width) for key, words in known]
        parts += [help_line(*entry, width) for entry in OF_THE_SCREEN]
        self.update(Content.assemble(*parts))


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."
