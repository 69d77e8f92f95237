"""The settings, each with an explanation; a change takes effect at once and is written to the file."""

from __future__ import annotations

import os
from collections.abc import Callable

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from gpututor.app.commands import foot, screen_bindings
from gpututor.app.screens.base import BaseModal, error_dialog
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
    "gpu": {OWN_GPU: "the exercise's own"},
}
"""Names of values whose word in the file says too little."""

_KEYS = foot("settings")
_KEYS_IN_TEXT = "Enter saves   Esc cancels"


class SettingsScreen(BaseModal[None]):
    """All settings; `changed` is called after each change."""

    BINDINGS = screen_bindings("settings")

    def __init__(self, settings: SettingsFile, changed: Callable[[], None]) -> None:
        super().__init__()
        self._settings = settings
        self._changed = changed
        self._list = OptionList(id="settings", markup=False, compact=True)
        self._text = Input(id="text", compact=True)
        self._drawn: tuple[Settings, tuple[str, ...]] | None = None
        self._faults = PlainText("")
        self._foot = PlainText(_KEYS, classes="foot")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -settings"):
            yield PlainText("Settings", classes="title")
            yield self._list
            yield self._text
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
        self._list.highlighted = 0
        self._list.focus()
        self.set_interval(0.3, self._refresh_rows)

    @on(events.DescendantFocus)
    def _show_keys(self) -> None:
        self._foot.update(_KEYS_IN_TEXT if self._text.has_focus else _KEYS)

    def _refresh_rows(self) -> None:
        """Show settings and problems that the main screen has read from the file."""
        if self._drawn != (self._settings.now, self._settings.faults):
            self._draw()

    def _draw(self) -> None:
        self._drawn = (self._settings.now, self._settings.faults)
        row = self._list.highlighted
        self._list.set_options(Option(self._line(setting), id=setting.key) for setting in SETTINGS)
        self._list.highlighted = row
        self._text.display = self._text.has_focus
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
        if _choices(self._setting):
            self.action_turn(1)
            return
        self._text.value = str(getattr(self._settings.now, self._setting.key))
        self._text.placeholder = "a command, such as: code --wait"
        self._text.display = True
        self._text.focus()

    @on(Input.Submitted)
    def _take_text(self, event: Input.Submitted) -> None:
        event.stop()
        self._list.focus()
        self._text.display = False
        self._choose(self._setting, event.value.strip())

    def _choose(self, setting: Setting, value: Value) -> None:
        try:
            self._settings.choose(setting.key, value)
        except TutorError as error:
            self.app.push_screen(error_dialog(error))
        self._changed()
        self._draw()

    def action_close(self) -> None:
        if self._text.has_focus:
            self._list.focus()
            self._text.display = False
        else:
            self.dismiss(None)


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
