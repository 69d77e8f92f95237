"""The device for runs, the models of the virtual GPU, and the diagnosis of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from gpututor.app.commands import foot, screen_bindings
from gpututor.app.runtime import in_thread, write_log
from gpututor.app.screens.base import BaseModal, TabbedPages, error_dialog
from gpututor.app.widgets.base import OptionRows, PlainText
from gpututor.app.wording import planned_device, reason_against
from gpututor.course.model import Exercise
from gpututor.doctor import NOTE, OK, WRONG, Diagnosis
from gpututor.errors import TutorError
from gpututor.paths import log_file
from gpututor.settings import OWN_GPU, SettingsFile, prepare_to_write
from gpututor.text import escape_control_chars
from gpututor.trace.formatting import size

if TYPE_CHECKING:
    from gpututor.hardware.inventory import Inventory

VIRTUAL_GPU = (
    "A model of a GPU in PyTorch: tensors say cuda:0; CUDA's rules apply",
    "Values are real: your CPU computes them; GPU errors are raised",
    "Times are modelled: kernels, copies and waits as on that GPU",
    "Modelled figures say so; unsupported calls raise errors",
)
"""Four lines that fit the narrowest dialog."""
_ALWAYS = {
    "auto": "a GPU that suits the exercise, else the virtual GPU",
    "virtual": "the virtual GPU, on any machine",
    "cpu": "the CPU alone; few exercises allow it",
}
_NAME_WIDTH = 20
_MARKS = {OK: "✓ ok", NOTE: "! note", WRONG: "✗ wrong"}


class DevicesScreen(BaseModal["Inventory"]):
    """Dismissed with the machine's devices, None until they are known; `diagnose` yields diagnoses."""

    BINDINGS = screen_bindings("devices")

    def __init__(
        self,
        settings: SettingsFile,
        exercise: Exercise,
        inventory: Inventory | None,
        diagnose: Callable[[], Iterator[Diagnosis]],
        changed: Callable[[], None],
    ) -> None:
        super().__init__()
        self._settings = settings
        self._exercise = exercise
        self._inventory = inventory
        self._diagnose = diagnose
        self._changed = changed
        self._check_number = self._wrong = 0
        self._has_checked = False
        self._devices = OptionRows(id="devices", markup=False, compact=True)
        self._plan = PlainText("", classes="plan")
        self._models = OptionRows(id="models", markup=False, compact=True)
        self._end = PlainText("", classes="end")
        self._diagnoses = VerticalScroll(self._end, id="found")
        lead, explained = PlainText("Your runs happen on", classes="lead"), "\n".join(VIRTUAL_GPU)
        runs = VerticalScroll(lead, self._devices, self._plan, can_focus=False)
        names = f"  {'':<{_NAME_WIDTH}}{'memory':>8}{'bandwidth':>12}{'float32':>11}{'float16':>11}"
        units = f"  {'':<{_NAME_WIDTH}}{'GiB':>8}{'GB/s':>12}{'TFLOP/s':>11}{'TFLOP/s':>11}"
        heading = PlainText(f"{names}\n{units}", classes="columns")
        gpu = VerticalScroll(PlainText(explained, classes="explained"), heading, self._models, can_focus=False)
        self._scrolls = (runs, gpu, self._diagnoses)
        self.pages = TabbedPages(
            "Devices",
            {"Where runs happen": runs, "Virtual GPU": gpu, "This machine": self._diagnoses},
            foot("devices"),
            turned=self._draw_page,
        )

    def compose(self) -> ComposeResult:
        yield self.pages

    def on_mount(self) -> None:
        prepare_to_write()
        self.pages.show(1)

    def action_page(self, number: int) -> None:
        self.pages.show(number)

    def action_turn(self, by: int) -> None:
        self.pages.turn(by)

    def _draw_page(self, number: int) -> None:
        self._draw()
        if number == 3 and not self._check_number:
            self.action_check_again()

    def _draw(self) -> None:
        chosen = self._settings.now
        rows = [(name, f"{'●' if name == chosen.device else '○'} {name:<9} {words}") for name, words in self._rows()]
        _fill(self._devices, [(name, escape_control_chars(row)) for name, row in rows])
        _fill(self._models, list(self._model_rows()))
        self._plan.update(self._plan_words())

    def _rows(self) -> list[tuple[str, str]]:
        rows = dict(_ALWAYS)
        for device in self._inventory.accelerators if self._inventory else ():
            memory = "" if device.memory_bytes is None else f", {size(device.memory_bytes)}"
            rows[device.name] = f"{device.description}{memory}"
        rows.setdefault(self._settings.now.device, "chosen in the settings")
        return list(rows.items())

    def _plan_words(self) -> str:
        exercise, chosen = self._exercise, self._settings.now
        name = f"{exercise.label} {exercise.title}"
        if reason := reason_against(exercise, self._inventory, chosen.device):
            return f"○ {name}: not gradable here. {reason}\nChoose auto or virtual."
        plan = planned_device(exercise, self._inventory, chosen.device, chosen.requested_gpu)
        return f"▸ {name} runs on {plan}.\n{self._known}"

    @property
    def _known(self) -> str:
        if self._inventory is None:
            return "… Still looking for GPUs."
        if self._inventory.error:
            return f"! {self._inventory.error}"
        return "" if self._inventory.accelerators else "There is no GPU on this machine that PyTorch can use."

    def _model_rows(self) -> Iterator[tuple[str, str]]:
        from gpututor.hardware.gpus import gpu_specs

        chosen = self._settings.now.gpu
        yield OWN_GPU, f"{'●' if chosen == OWN_GPU else '○'} the exercise's own"
        for model in gpu_specs().values():
            halves = f"{model.float16_flops / 1e12:,.0f}" if model.float16_flops else "-"
            figures = (
                f"{model.memory_bytes / 2**30:>8.1f}{model.bytes_per_s / 1e9:>12,.0f}"
                f"{model.float32_flops / 1e12:>11.1f}{halves:>11}"
            )
            yield model.name, f"{'●' if model.name == chosen else '○'} {model.name:<{_NAME_WIDTH}}{figures}"

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        key = "device" if event.option_list is self._devices else "gpu"
        try:
            self._settings.choose(key, event.option.id or "")
        except TutorError as error:
            self.app.push_screen(error_dialog(error))
        self._changed()
        self._draw()

    def action_step(self, by: int) -> None:
        focused = self.focused
        if isinstance(focused, OptionList):
            (focused.action_cursor_down if by > 0 else focused.action_cursor_up)()
        elif focused is not None:
            focused.scroll_relative(y=by, animate=False)

    def action_scroll_page(self, by: int) -> None:
        """Scroll the whole page if it is longer than the screen."""
        page = self._scrolls[self.pages.number - 1]
        page.scroll_relative(y=by * max(1, page.size.height - 1), animate=False)

    def action_check_again(self) -> None:
        """Start a new check; ignore the rest of the previous check."""
        self._check_number += 1
        self._wrong, self._has_checked = 0, False
        self._diagnoses.remove_children(FindingRow)
        self._show_findings()
        in_thread(self._find, self._check_number)

    def _find(self, check: int) -> None:
        from gpututor.hardware.inventory import load_inventory

        try:
            for finding in self._diagnose():
                if check != self._check_number or not self.is_attached:
                    return
                self.call_later(self._show_finding, finding, check)
        except Exception as error:
            write_log(error)
            broken = Diagnosis(WRONG, "gpututor", f"the check itself failed: {error!r}", f"The log is {log_file()}")
            self.call_later(self._show_finding, broken, check)
        # The check has just refreshed the inventory, so this does not wait.
        self.call_later(self._end_check, load_inventory(), check)

    def _show_finding(self, finding: Diagnosis, check: int) -> None:
        if check == self._check_number:
            self._wrong += finding.state == WRONG
            self._diagnoses.mount(FindingRow(finding), before=self._end)
            self._show_findings()

    def _end_check(self, inventory: Inventory, check: int) -> None:
        if check == self._check_number:
            self._has_checked = True
            self._inventory = inventory
            self._draw()
            self._show_findings()

    def action_close(self) -> None:
        self.dismiss(self._inventory)

    def _show_findings(self) -> None:
        end = f"✗ {self._wrong} to fix." if self._wrong else "✓ Nothing is wrong."
        self._end.update(end if self._has_checked else "… Checking. PyTorch takes some seconds.")


class FindingRow(Horizontal):
    """A diagnosis and its remedy."""

    def __init__(self, finding: Diagnosis) -> None:
        words = "\n".join(filter(None, (finding.words, finding.advice)))
        texts = {"mark": _MARKS[finding.state], "about": finding.about, "words": words}
        super().__init__(*(PlainText(text, classes=name) for name, text in texts.items()))
        self.add_class(f"-{finding.state.lower()}")


def _fill(options: OptionList, rows: list[tuple[str, str]]) -> None:
    """Replace the rows; the cursor stays on its row, and is on the chosen one at first."""
    row = options.highlighted
    if row is None:
        row = next((number for number, (_, text) in enumerate(rows) if text.startswith("●")), 0)
    options.set_options(Option(text, id=id) for id, text in rows)
    options.highlighted = min(row, len(rows) - 1)
