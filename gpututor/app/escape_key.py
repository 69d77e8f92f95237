"""The terminal driver: Esc without a delay, also right before another key, and output to a terminal that may close."""

from __future__ import annotations

import contextlib
import os
import selectors
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable
from typing import IO, Any

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.driver import Driver

from gpututor.app.textual_private import app_of, forward_key, replace_output

LOOK_EVERY_S = 0.02
"""Seconds until an Esc without more bytes is an Esc; 100 ms in Textual."""
_ESC = "\x1b"
_BEGIN_SEQUENCES = "[OPX]^_"
"""Characters after an Esc in longer sequences."""
_MOST_BYTES = 4096


class EscapeParser(XTermParser):
    """Parser that recognizes Esc and a key right after it.

    Terminals send the same bytes for Alt with a key and for Esc and the key. Textual loses the Esc if the key is not a
    letter, and changes digits. Here characters get the name `alt+…`, see `escape_and_key`; keys such as Enter become
    two keys.
    """

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        behind = sequence[1] if len(sequence) == 2 and sequence[0] == _ESC else ""
        # A tuple is a key such as ctrl+right, which some terminals send as Esc and a letter.
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
    """Return the two keys that Alt with a character may also have been; None for other keys."""
    character = event.character
    if not event.key.startswith("alt+") or character is None or not event.is_printable:
        return None
    name = character if character.isalnum() else event.key.removeprefix("alt+")
    return events.Key("escape", _ESC), events.Key(name, character)


async def handle_escape(app: App[Any], event: events.Key) -> bool:
    """Handle Esc, and Esc with a character after it; return False for other keys.

    If the focused widget takes no text, Esc is forwarded as letters are, so it comes after letters typed before it.
    """
    if event.is_forwarded:
        return event.key == "escape" and await _run_priority_binding(app, event.key)
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
    # The character is not text, even if Esc did not leave the input.
    if app.focused is None or not app.focused.check_consume_key(key.key, key.character):
        await App.on_event(app, key)
    return True


async def _run_priority_binding(app: App[Any], key: str) -> bool:
    """Run a key's priority binding; return False if there is none."""
    active = app.screen.active_bindings.get(key)
    if active is None or not active.binding.priority:
        return False
    return await app.run_action(active.binding.action, active.node)


class TerminalOutput:
    """Output to a terminal that may be closed.

    An error would end the driver's thread, and its full queue would then block the app, which could never end.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


if sys.platform != "win32":
    from textual.drivers.linux_driver import LinuxDriver

    class QuickDriver(LinuxDriver):
        """Textual's driver with shorter waits, `EscapeParser` and `TerminalOutput`."""

        def __init__(self, app: App[Any], **options: Any) -> None:
            super().__init__(app, **options)
            replace_output(self, TerminalOutput)

        def stop_application_mode(self) -> None:
            # After a resize, tmux shows rows of the alternate screen again when the app has left it.
            self.write("\x1b[2J")
            super().stop_application_mode()

        def run_input_thread(self) -> None:
            parser, decode = EscapeParser(), getincrementaldecoder("utf-8")().decode
            with selectors.SelectSelector() as selector:
                selector.register(self.fileno, selectors.EVENT_READ)
                is_over = False
                while not is_over:
                    is_over = self.exit_event.is_set()  # then the input is read once more
                    if selector.select(LOOK_EVERY_S):
                        received = os.read(self.fileno, _MOST_BYTES)
                        if not received and not is_over:
                            # The terminal was closed: from now on, there is always nothing to read.
                            app: Any = app_of(self)
                            app.call_later(app.leave_at_once)
                            return
                        sent = decode(received, final=is_over)
                        # At the end of the input nothing is sent, which would also end the parser.
                        for message in parser.feed(sent) if sent else ():
                            self.process_message(message)
                    for message in parser.tick():
                        self.process_message(message)


def quick_driver(driver: type[Driver]) -> type[Driver]:
    """Return the driver to use in place of Textual's own choice."""
    return QuickDriver if sys.platform != "win32" and driver is LinuxDriver else driver
