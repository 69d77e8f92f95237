"""All private names of Textual that the app uses, with the reasons.

The functions below use attributes. `OVERRIDDEN` lists methods that our classes override. A test checks that the app
uses no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from textual import events
from textual.app import App
from textual.binding import BindingsMap, BindingType
from textual.dom import DOMNode
from textual.screen import Screen
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.content import Content
    from textual.driver import Driver
    from textual.drivers.linux_driver import LinuxDriver
    from textual.widgets import TextArea
    from textual.widgets.markdown import MarkdownBlock, MarkdownFence

MODULES = {
    "textual._ansi_sequences": "The sequences that an Esc may begin.",
    "textual._xterm_parser": "The base of the parser that separates Esc and Alt. Asked for in Textualize/textual#4816.",
}
"""Private modules, and the reason for each."""
OVERRIDDEN = {
    "_sequence_to_key_events": "Esc before another key is not lost; ESCDELAY (Textualize/textual#4848) cannot do it.",
    "_compositor_refresh": "A screen is painted once a step of the event loop; see also Textualize/textual#5516.",
    "_fatal_error": "The learner's text is saved before the app ends; no hook for it: Textualize/textual#2818.",
    "_action_command_list": "The palette's list may not be laid out yet when a page is turned.",
    "_set_document": "The editor's document keeps characters that Textual's would change.",
    "_render_line": "Matches and brackets are drawn over the background of the cursor's line.",
    "_get_component_classes": "Blocks of Markdown take the styles of their text: a lesson mounts five times sooner.",
}
"""Overridden methods, and the reason for each."""


def is_painting_batch(app: App[Any]) -> bool:
    """Return True while updates are batched: what is painted then is lost."""
    return bool(app._batch_count)


def paint_changed(screen: Screen[Any]) -> None:
    """Pass widgets that changed since the layout to the compositor, which would not paint them."""
    if screen._dirty_widgets:
        screen._compositor.update_widgets(screen._dirty_widgets)


def strips_of(screen: Screen[Any]) -> list[Strip]:
    return screen._compositor.render_strips(screen.size)


def replace_output(driver: LinuxDriver, wrap: Callable[[Any], Any]) -> None:
    """Replace the stream that a thread of the driver writes to."""
    driver._file = wrap(driver._file)


def app_of(driver: Driver) -> App[Any]:
    """Return the app that a driver reads keys for."""
    return driver._app


def forward_key(target: DOMNode, event: events.Key) -> None:
    """Forward a key to a widget or a screen, after the keys before it."""
    target._forward_event(event)  # type: ignore[attr-defined]


def rebind(node: DOMNode, bindings: Iterable[BindingType]) -> None:
    """Replace the bindings of a node's class that have the same actions. A keymap cannot add or swap keys."""
    new = BindingsMap(bindings)
    actions = {binding.action for bound in new.key_to_bindings.values() for binding in bound}
    inherited = node._merged_bindings or BindingsMap()
    kept = {
        key: bound
        for key, bound in inherited.key_to_bindings.items()
        if not any(binding.action in actions for binding in bound)
    }
    node._bindings = BindingsMap.from_keys({**kept, **new.key_to_bindings})


def forget_lines(area: TextArea) -> None:
    area._line_cache.clear()


def wrap_lines(area: TextArea) -> None:
    area._rewrap_and_refresh_virtual_size()


def is_cursor_drawn(area: TextArea) -> bool:
    """Return True while the cursor is drawn, and not in the dark half of its blinking."""
    return area._draw_cursor


def content_of(block: MarkdownBlock) -> Content:
    """Return the text of a Markdown block, without the style of a chosen link."""
    return block._content


def code_of(block: MarkdownFence) -> Content:
    return block._highlighted_code


def set_code(block: MarkdownFence, code: Content) -> bool:
    """Put highlighted code into a Markdown block; return False if it is there already."""
    if code is block._content:
        return False
    block._content = block._highlighted_code = code
    return True
