"""`torch.Generator` on a virtual GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine


def test_a_gpu_generator_is_cloned_and_printed_as_torchs(two_gpus: VirtualMachine) -> None:
    made: Any = torch.Generator("cuda:1").manual_seed(3)
    clone = made.clone_state()
    assert clone.device == torch.device("cuda:1")
    drawn = [torch.rand(2, device="cuda:1", generator=generator).tolist() for generator in (made, clone)]
    assert drawn[0] == drawn[1]
    assert repr(made).startswith("<torch._C.Generator object at 0x")
    calls = {
        "get_offset": made.get_offset,
        "set_offset": lambda: made.set_offset(4),
        "graphsafe_get_state": made.graphsafe_get_state,
        "graphsafe_set_state": lambda: made.graphsafe_set_state(clone),
    }
    for name, call in calls.items():
        with pytest.raises(NotImplementedError, match=f"does not support Generator.{name}"):
            call()
    host: Any = torch.Generator()
    assert host.clone_state().device == torch.device("cpu")
    with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
        host.get_offset()
