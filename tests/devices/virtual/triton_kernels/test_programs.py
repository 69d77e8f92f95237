"""Programs built as Triton's tutorials compute what torch computes, by `virtual_gpu` and by the pytest plugin."""

from __future__ import annotations

import pytest

from gpututor.devices.virtual import virtual_gpu
from tests.support import ROOT

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

from tests.support.triton_programs import PROGRAMS, fused_attention, matrix_product

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_what_torch_computes(name: str) -> None:
    with virtual_gpu(model="A100"):
        assert PROGRAMS[name]() < 1e-3


def test_the_options_of_programs_reach_the_kernels() -> None:
    with virtual_gpu():
        assert fused_attention(length=32, causal=False) < 1e-3
        assert matrix_product(activation="") < 1e-3


def test_programs_run_under_the_pytest_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(
        """
        import pytest
        from tests.support.triton_programs import PROGRAMS

        @pytest.mark.parametrize("name", PROGRAMS)
        def test_program(name):
            assert PROGRAMS[name]() < 1e-3
        """
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    options = ("-p", "gpututor.pytest_plugin", "--virtual-gpus=1", "-p", "no:cacheprovider", "-q")
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=len(PROGRAMS))
