"""The least time of work, and the peaks of known devices."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpututor.checks.model import Machine, SpeedLimit
from gpututor.hardware.gpus import gpu_spec
from gpututor.hardware.scenario import Scenario
from gpututor.judge.timing.roofline import Peak, peak_of
from gpututor.protocol.decode import Decoder
from gpututor.protocol.encode import Encoder

PEAK = Peak(bytes_per_s=1e9, flops=lambda dtype: 1e12 if dtype == "float32" else 1e15)
LIMIT = SpeedLimit("baseline.py", 1.25)


def observed(result: Any) -> Any:
    packer = Encoder()
    node = packer.pack(result)
    return Decoder(tuple(packer.buffers)).unpack(node)


def gpu(name: str) -> Machine:
    return Machine(Scenario("a GPU", 1, ("cuda",)), "cuda:0", False, name, None)


def test_a_result_has_to_be_written_but_not_its_expanded_dimensions() -> None:
    assert PEAK.least_s(LIMIT, {}, observed(torch.ones(1000))) == pytest.approx(4000 / 1e9)
    assert PEAK.least_s(LIMIT, {}, observed(torch.ones(1).expand(1000))) == pytest.approx(4 / 1e9)


def test_the_author_can_set_the_least_work() -> None:
    limit = SpeedLimit("baseline.py", 1.25, None, lambda drawn: drawn["n"] * 8.0, lambda drawn: drawn["n"] * 1e6)
    assert PEAK.least_s(limit, {"n": 1000}, observed(torch.ones(1))) == pytest.approx(1e9 / 1e12)
    assert PEAK.least_s(limit, {"n": 1000}, observed(torch.ones(1).half())) == pytest.approx(8000 / 1e9)


def test_a_known_gpu_has_its_own_peak_and_an_unknown_one_the_fastest_known() -> None:
    known, unknown = peak_of(gpu(gpu_spec("T4").reported_name)), peak_of(gpu("Nobody's GPU 9000"))
    assert known.bytes_per_s == gpu_spec("T4").bytes_per_s
    assert unknown.bytes_per_s > known.bytes_per_s
    assert unknown.flops("float16") > known.flops("float16") > known.flops("float32")


def test_the_cpu_has_a_peak_that_its_own_product_does_not_reach() -> None:
    peak = peak_of(Machine(Scenario("the CPU", 0, ()), "cpu", False, "", None))
    assert peak.bytes_per_s > 0
    assert 0 < peak.flops("float32") < peak.flops("float16")
