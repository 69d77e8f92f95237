"""How to read what the device screen shows, and its keys."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from textual.content import Content

from gpututor.app.commands import KeyHint
from gpututor.app.screens.help import TextScreen, help_line

ABOUT = {
    "Timeline": (
        "Time runs to the right. Each row is something that works by itself: the host, a stream of a device, an engine"
        " that copies one way. What stands above each other happened at the same time; a gap is time in which nothing"
        " was done there. The height of a bar says how much of its column's time is taken.",
        "The host only launches work: it goes on at once, unless it waits (░). A device that stands idle while the host"
        " launches has too many small kernels; one that stands idle while the host waits could have been given more.",
        "A short copy is an arrow: → to the device, ← to the host, ↔ between devices. ▼ or ┝━┥ on the scale is the"
        " event that you are at.",
        "A gap in all rows is time of the host that no bar stands for: of Python and PyTorch themselves, or of the"
        " driver, which takes about 0.1 ms when PyTorch asks it for memory because its own cache has none that fits.",
        "Where times are modelled, they are what the virtual GPU would have taken; nobody measured them.",
    ),
    "Memory": (
        "What tensors hold on a device over time, as torch.cuda.memory_allocated() counts it. ▲ is the peak, ✗ is"
        " memory that was asked for and not there, ↑ is where you read.",
        "Below the curve stands which lines hold memory at that moment: what a line took and nobody has given back yet."
        " To lower the peak, let go of what is at the top of that list, or take less there.",
        "Memory is taken and given back when the host says so, not when a kernel runs. PyTorch's cache, the context and"
        " libraries' own buffers are not in it.",
    ),
    "Times": (
        "Times of one group are on one scale. The baseline is the file that the checks compare with; the line with an"
        " end is what they allow. The floor is what no program can be faster than on this device: its results have to"
        " be written, at its full rate.",
        "Inputs are drawn anew for each run. Beside other attempts compare the ratios to the baseline, or grade again.",
        "The device's time counts each moment once: computing before copying before waiting before idle. Idle time is"
        " the host's: it launches, or computes itself.",
    ),
    "Lines": (
        "What each line caused in all calls of the run together. The time is that of its kernels and copies, or that of"
        " its waits where those are longer. What backward() computes counts for the line that calls it.",
        "● marks the line that costs most, ! a line with a hazard.",
    ),
    "Figures": (
        "What both attempts made the devices do in the same call, and in words by how much the left one differs. Fewer"
        " copies, waits and kernels are mostly what makes the time shorter.",
        "Inputs are drawn anew for each run: where their shapes differ, amounts differ for that reason too.",
        "Below, both times are on one scale, with what they were spent on: each moment counts once, computing before"
        " copying before waiting before idle.",
    ),
    "Lines of both": (
        "Lines are paired by their text, wherever they stand, and those come first whose cost differs most: − costs"
        " less in the left attempt, + costs more, = costs the same. Times are of all calls of the run together.",
    ),
    "Both timelines": (
        "The left attempt is above, the other one below, on one scale: zooming and moving changes both. What stands"
        " below each other happened at the same time after the start.",
    ),
    "Hazards": (
        "A hazard is when two streams, or a copy and the host, use the same memory, one of them writes it, and nothing"
        " says which comes first. The values may still be right here; on a real GPU they need not be.",
        "What is most worth changing is worked out from the trace: what it costs is an estimate. A remedy"
        " costs something too, on small inputs at times more; and two of them need not add up.",
    ),
}
"""How to read each tab, in paragraphs."""
KEYS_OF = {
    "Timeline": (
        ("← →  h l", "The event before, the next one; the row's first and last are g and G."),
        ("↑ ↓  k j", "Another row, at the same time."),
        ("+ -", "Zoom, around the event."),
        ("z  0", "Zoom to the event; see everything."),
        ("[ ]", "Earlier and later; shift and an arrow key too."),
        ("n N", "The next hazard or wait of the host, the one before."),
        ("Enter", "Go to the line of your file that caused the event."),
        ("Space", "From a launch to what was launched, and back."),
        ("PgUp PgDn", "Scroll the words below."),
    ),
}
"""Keys in sentences, for tabs with more of them than the last line of the screen has room for."""


def device_help(tab: str, tab_keys: Sequence[KeyHint], screen_keys: Sequence[tuple[str, str]]) -> TextScreen:
    """Explain how to read a tab, and list its keys and those of the screen, each with its sentence."""

    def content(width: int) -> Content:
        parts: list[Content | str | tuple[str, str]] = []
        for paragraph in ABOUT[tab]:
            parts.append("\n".join(textwrap.wrap(paragraph, max(20, width))) + "\n\n")
        in_short = [(hint.key, f"{hint.title[:1].upper()}{hint.title[1:]}.") for hint in tab_keys]
        parts += [help_line(*entry, width) for entry in KEYS_OF.get(tab, in_short)]
        parts.append(("\nThe screen\n", "bold $text-accent"))
        parts += [help_line(*entry, width) for entry in screen_keys]
        return Content.assemble(*parts)

    return TextScreen(f"{tab}: how to read it, and its keys", content)
