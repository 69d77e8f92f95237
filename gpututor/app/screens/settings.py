"""The settings, each with an explanation; a change takes effect at once and is written to the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from gpututor.app.commands import foot, screen_bindings
from gpututor.app.screens.base import BaseModal, error_dialog
from gpututor.app.screens.choices import EditorDialog
from gpututor.app.widgets.base import PlainText
from gpututor.app.wording import short_path
from gpututor.errors import TutorError, WorkspaceError
from gpututor.settings import OWN_GPU, SETTINGS, Setting, Settings, SettingsFile, Value, prepare_to_write
from gpututor.text import escape_control_chars

_TITLE_WIDTH = 14
_SHOWN = {
    "auto_run": {"asked": "when asked", "other editor": "also when another editor saves", "saved": "at every save"},
    "motion": {"full": "full", "none": "none"},
    "costs": {"true": "shown", "false": "hidden"},
    "soft_wrap": {"false": "no", "true": "yes"},
    "streak": {"true": "shown", "false": "hidden"},
    "vim": {"true": "on", "false": "off"},
    "gpu": {OWN_GPU: "the exercise's own"},
}
"""Names of values whose word in the file says too little."""

_ENTER = {"theme": "themes", "editor": "edit"}
"""Commands that Enter runs on some settings; on the others it goes to the next value."""
_KEPT = ("j", "k", "q", ",", " ")
"""Characters that are commands on every setting; others open the box of a setting that is a text."""


class SettingsScreen(BaseModal[None]):
    """All settings; `changed` is called after each change."""

    BINDINGS = screen_bindings("settings")

    def __init__(
        self,
        settings: SettingsFile,
        changed: Callable[[], None],
        installed_editors: Callable[[], list[tuple[str, str]]],
        at: str = "",
    ) -> None:
        """`at`: the key of the setting at the cursor; the first setting if empty."""
        super().__init__()
        self._settings = settings
        self._changed = changed
        self._installed_editors = installed_editors
        self._at = at
        self._list = OptionList(id="settings", markup=False, compact=True)
        self._box: EditorDialog | None = None
        self._drawn: tuple[Settings, tuple[str, ...]] | None = None
        self._faults = PlainText("")
        self._foot = PlainText("", classes="foot")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -settings"):
            yield PlainText("Settings", classes="title")
            yield self._list
            yield VerticalScroll(self._faults, classes="faults")
            yield PlainText(f"File: {short_path(self._settings.path)}", classes="file")
            yield self._foot

    def on_mount(self) -> None:
        if not self._list.is_attached:
            return  # The app is leaving: Textual mounts nothing more.
        prepare_to_write()
        try:
            self._settings.create()
        except OSError as error:
            title = f"{self._settings.path} cannot be made: {error.strerror}"
            self.app.push_screen(error_dialog(WorkspaceError(title)))
        self._draw()
        self._list.highlighted = next((row for row, setting in enumerate(SETTINGS) if setting.key == self._at), 0)
        self._list.focus()
        self.set_interval(0.3, self._refresh_rows)

    @on(OptionList.OptionHighlighted)
    def _show_keys(self) -> None:
        enter = _ENTER.get(self._setting.key, "next")
        others = {"themes", "edit", "next"} - {enter}
        self._foot.update(foot("settings", *others, *(() if _choices(self._setting) else ("turn",))))

    def _refresh_rows(self) -> None:
        """Show settings and problems that the main screen has read from the file."""
        if self._drawn != (self._settings.now, self._settings.faults):
            self._draw()

    def _draw(self) -> None:
        self._drawn = (self._settings.now, self._settings.faults)
        row = self._list.highlighted
        self._list.set_options(Option(self._line(setting), id=setting.key) for setting in SETTINGS)
        self._list.highlighted = row
        path = self._settings.path  # its folder is shown below
        faults = [fault.replace(str(path), path.name) for fault in self._settings.faults]
        self._faults.update("\n".join(f"! {fault}" for fault in faults))
        self.query_one(".faults").display = bool(faults)
        self.query_one(".dialog").set_class(bool(faults), "-faults")

    def _line(self, setting: Setting) -> Content:
        value = getattr(self._settings.now, setting.key)
        shown = f"◂ {_shown(setting, value)} ▸" if _choices(setting) else _shown(setting, value)
        return Content.assemble(
            (f"{setting.title:<{_TITLE_WIDTH}}", "bold"),
            shown,
            "\n",
            (" " * _TITLE_WIDTH + setting.help, "$foreground-muted"),
        )

    @property
    def _setting(self) -> Setting:
        return SETTINGS[self._list.highlighted or 0]

    def action_turn(self, by: int) -> None:
        setting = self._setting
        choices = _choices(setting)
        if not choices:
            return
        value = getattr(self._settings.now, setting.key)
        place = choices.index(value) + by if value in choices else 0
        self._choose(setting, choices[place % len(choices)])

    def action_step(self, by: int) -> None:
        (self._list.action_cursor_down if by > 0 else self._list.action_cursor_up)()

    @on(OptionList.OptionSelected)
    def _change(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        match _ENTER.get(self._setting.key):
            case "themes":
                self.app.search_themes()
            case "edit":
                self._open_box()
            case _:
                self.action_turn(1)

    def on_key(self, event: events.Key) -> None:
        """Open the box with the character that was typed."""
        if not event.is_printable or event.character is None or _choices(self._setting):
            return
        if self._box is not None:
            self._box.type(event.character)  # typed before the box had the focus
        elif event.character not in _KEPT:
            self._open_box(event.character)
        else:
            return
        event.stop()
        event.prevent_default()

    def _open_box(self, typed: str = "") -> None:
        setting, value = self._setting, str(getattr(self._settings.now, self._setting.key))
        self._box = EditorDialog(self._installed_editors(), value, typed)
        self.app.push_screen(self._box, partial(self._take_text, setting))

    def _take_text(self, setting: Setting, command: str | None) -> None:
        self._box = None
        if command is not None:
            self._choose(setting, command)

    def _choose(self, setting: Setting, value: Value) -> None:
        try:
            self._settings.choose(setting.key, value)
        except TutorError as error:
            self.app.push_screen(error_dialog(error))
        self._changed()
        self._draw()


def _choices(setting: Setting) -> tuple[Value, ...]:
    if setting.key != "gpu":
        return setting.choices
    from gpututor.hardware.gpus import gpu_names

    return (OWN_GPU, *gpu_names())


def _shown(setting: Setting, value: Value) -> str:
    if setting.key == "editor" and not value:
        variable = next((name for name in ("VISUAL", "EDITOR") if os.environ.get(name)), "")
        if not variable:
            return "none: $VISUAL and $EDITOR are empty"
        return escape_control_chars(f"{os.environ[variable]} (from ${variable})")
    word = str(value).lower() if isinstance(value, bool) else value
    return escape_control_chars(_SHOWN.get(setting.key, {}).get(word, word))
