"""The virtual GPUs' names, for who imports no torch."""

from __future__ import annotations

import pytest

from gpututor.devices.virtual.specs import all_specs, spec
from gpututor.errors import UsageError
from gpututor.grading.models import model_called, model_names

SPELLINGS = [each for one in all_specs().values() for each in (one.name, one.reported_name, *one.aliases)]


def test_the_names_are_those_of_the_virtual_gpu() -> None:
    assert list(model_names()) == list(all_specs())


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_is_the_same_model_in_both(spelling: str) -> None:
    for words in (spelling, spelling.lower().replace(" ", "-"), f"NVIDIA {spelling}"):
        assert model_called(words) == spec(words).name


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="No GPU is called 'H2000'") as here:
        model_called("H2000")
    with pytest.raises(UsageError) as there:
        spec("H2000")
    assert str(here.value) == str(there.value)
