"""Esc without a wait that can be felt, and with whatever key comes right behind it."""

from __future__ import annotations

import os
import selectors
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable
from typing import Any

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.driver import Driver

from gpututor.app.textual_private import forward_key, run_priority_binding

LOOK_EVERY_S = 0.02
"""100 ms in Textual, which notices only at its next look that nothing came behind an Esc, and so that it was one."""
_ESC = "\x1b"
_BEGIN_SEQUENCES = "[OPX]^_"
"""What may stand behind an Esc in longer sequences."""
_MOST_BYTES = 4096


class EscapeParser(XTermParser):
    """Tells Esc and a key behind it at once.

    Terminals send the same for Alt and a key as for Esc and then the key. Textual loses the Esc where the key is no
    letter, and makes other characters of digits. Here every character has `alt+` in its name, see `escape_and_key`; of
    keys such as Enter two are made.
    """

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        behind = sequence[1] if len(sequence) == 2 and sequence[0] == _ESC else ""
        # A tuple: such as ctrl+right, which some terminals send as Esc and a letter.
        if behind and behind not in _BEGIN_SEQUENCES and not isinstance(ANSI_SEQUENCES_KEYS.get(sequence), tuple):
            sequence, alt = behind, True
        for event in super()._sequence_to_key_events(sequence, alt=alt):
            if not alt or event.key.startswith("alt+"):
                yield event
            elif event.is_printable:
                yield events.Key(f"alt+{event.key}", event.character)
            else:
                yield from (events.Key("escape", _ESC), event)


def escape_and_key(event: events.Key) -> tuple[events.Key, events.Key] | None:
    """The two keys that Alt with a character may also have been; None for other keys."""
    character = event.character
    if not event.key.startswith("alt+") or character is None or not event.is_printable:
        return None
    name = character if character.isalnum() else event.key.removeprefix("alt+")
    return events.Key("escape", _ESC), events.Key(name, character)


async def escape_took(app: App[Any], event: events.Key) -> bool:
    """Whether `event`, one of `app`'s, was Esc, or Esc with a character behind it, and has been dealt with.

    Where nothing takes text, Esc goes the way of letters, and so comes behind those that were typed before it.
    """
    if event.is_forwarded:
        return event.key == "escape" and await run_priority_binding(app, event.key)
    focused = app.focused
    takes_text = focused is not None and focused.check_consume_key("a", "a")
    both = escape_and_key(event)
    if not takes_text and (both is not None or event.key == "escape") and app.screen.maximized is None:
        for key in both or (event,):
            forward_key(focused or app.screen, key)
        return True
    if both is None or event.key in app.screen.active_bindings:
        return False
    escape, key = both
    await App.on_event(app, escape)
    # Where Esc did not leave what one types in, the character is no text all the same.
    if app.focused is None or not app.focused.check_consume_key(key.key, key.character):
        await App.on_event(app, key)
    return True


if sys.platform != "win32":
    from textual.drivers.linux_driver import LinuxDriver

    class QuickDriver(LinuxDriver):
        """Textual's driver, which looks for keys more often, and tells Esc from Alt."""

        def run_input_thread(self) -> None:
            """Read keys until the app leaves."""
            parser, decode = EscapeParser(), getincrementaldecoder("utf-8")().decode
            with selectors.SelectSelector() as selector:
                selector.register(self.fileno, selectors.EVENT_READ)
                is_over = False
                while not is_over:
                    is_over = self.exit_event.is_set()  # then what has come is read once more
                    if selector.select(LOOK_EVERY_S):
                        sent = decode(os.read(self.fileno, _MOST_BYTES), final=is_over)
                        # Nothing is sent where the input has come to its end, which the parser takes for its own.
                        for message in parser.feed(sent) if sent else ():
                            self.process_message(message)
                    for message in parser.tick():
                        self.process_message(message)


def quick_driver(driver: type[Driver]) -> type[Driver]:
    """Return the driver to use in place of Textual's own choice."""
    return QuickDriver if sys.platform != "win32" and driver is LinuxDriver else driver
