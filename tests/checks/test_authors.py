"""Calls of an author's functions, whose arguments may have any names."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpututor.checks.authors import call_author
from gpututor.checks.model import run_reference
from gpututor.errors import CourseError

NAMES = ("wanted", "function", "values", "named", "reference", "drawn", "self", "in_float64")


@pytest.mark.parametrize("name", NAMES)
def test_an_argument_may_have_any_name(name: str) -> None:
    drawn = {name: torch.ones(2)}
    assert run_reference(lambda **all: all[name], drawn, in_float64=True).dtype is torch.float64


def test_a_function_with_a_wrong_signature_is_reported_with_its_line() -> None:
    def amount(drawn: Any) -> int:
        return 1

    with pytest.raises(CourseError, match=r"amount\(drawn.* \(drawn, machine\)") as broke:
        call_author(amount, {}, None)  # type: ignore[arg-type]
    assert f":{amount.__code__.co_firstlineno}: " in broke.value.title
