"""Esc is known as soon as it can be told from the beginning of another key."""

from __future__ import annotations

import selectors
from types import SimpleNamespace

import pytest
from textual.drivers import linux_driver

from gpututor.app.escape import LOOK_EVERY_S, QuickSelector, notice_escape_sooner


def test_the_terminal_is_looked_at_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float | None] = []

    def select(_: selectors.SelectSelector, timeout: float | None = None) -> list[object]:
        waits.append(timeout)
        return []

    monkeypatch.setattr(selectors.SelectSelector, "select", select)
    with QuickSelector() as selector:
        assert [selector.select(timeout) for timeout in (0.1, None, 0.001)] == [[], [], []]
    assert waits == [LOOK_EVERY_S, LOOK_EVERY_S, 0.001]


def test_textual_takes_what_it_needs_from_the_module_that_is_put_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux_driver, "selectors", selectors)
    notice_escape_sooner()
    put = vars(linux_driver)["selectors"]
    assert isinstance(put, SimpleNamespace)
    names = linux_driver.LinuxDriver.run_input_thread.__code__.co_names
    assert "selectors" in names, "Textual reads keys in another way now"
    assert put.SelectSelector is QuickSelector
    assert {"SelectSelector", "EVENT_READ"} == {name for name in names if hasattr(selectors, name)} - {"select"}
