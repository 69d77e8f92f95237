"""Suites of others under the pytest plugin: how their failures read, and machines of their own."""

from __future__ import annotations

import re

import pytest

from tests.support.pytest_sessions import run

pytest_plugins = ["pytester"]


def test_a_failure_shows_the_persons_lines_and_none_of_the_virtual_gpus(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import torch

        def mixed(x):
            return x + torch.ones(2)

        def test_mixed():
            mixed(torch.ones(2, device="cuda"))

        def test_in_a_hook():
            def hook(gradient):
                return gradient + torch.ones(2)

            x = torch.ones(2, device="cuda", requires_grad=True)
            x.register_hook(hook)
            x.sum().backward()

        def test_far_away():
            torch.ones(1, device="cuda:7")
        """
    )
    result = run(pytester, "--virtual-gpus=2")
    result.assert_outcomes(failed=3)
    text = result.stdout.str()
    assert "devices/virtual" not in text.replace("\\", "/")
    assert "_ops.py" not in text
    assert "overrides.py" not in text
    for line in ("return x + torch.ones(2)", "return gradient + torch.ones(2)", 'torch.ones(1, device="cuda:7")'):
        assert re.search(rf"^> +{re.escape(line)}$", text, re.MULTILINE)
    assert "found at least two devices, cuda:0 and cpu!" in text
    whole = run(pytester, "--virtual-gpus=2", "--full-trace", "-k", "test_mixed")
    assert "dispatch.py" in whole.stdout.str()


def test_a_suites_own_machine_takes_the_place_of_the_sessions(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        import torch
        from gpututor.devices.virtual import virtual_gpu as machine

        BEFORE = torch.ones(1, device="cuda")

        @pytest.fixture(scope="module")
        def h100():
            with machine(3, "H100") as made:
                yield made

        def test_one(h100):
            assert torch.cuda.device_count() == 3
            assert torch.ones(1, device="cuda:2").device == h100.gpus[2].device

        def test_two(h100):
            assert "H100" in torch.cuda.get_device_name()
            with pytest.raises(RuntimeError, match="on already"):
                with machine():
                    pass

        @pytest.mark.virtual_gpu(count=1, model="L4")
        def test_three():
            assert torch.cuda.get_device_name() == "NVIDIA L4"
            with machine(2):
                assert torch.cuda.device_count() == 2
            assert torch.cuda.device_count() == 1
        """
    )
    pytester.makepyfile(
        test_z="""
        import torch

        def test_after():
            assert torch.cuda.device_count() == 2
            assert torch.ones(1, device="cuda:1").item() == 1
        """
    )
    run(pytester, "--virtual-gpus=2").assert_outcomes(passed=4)


def test_a_modules_machine_works_without_the_sessions_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        import torch
        from gpututor.devices.virtual import virtual_gpu as machine

        @pytest.fixture(scope="module", autouse=True)
        def gpus():
            with machine(2):
                yield

        @pytest.mark.parametrize("number", [0, 1])
        def test_each(number):
            assert torch.ones(1, device=number).device.index == number

        @pytest.mark.virtual_gpu(count=3)
        def test_last():
            assert torch.cuda.device_count() == 3
        """
    )
    pytester.makepyfile(test_z="import torch\ndef test_after():\n    assert not torch.cuda.is_available()\n")
    run(pytester).assert_outcomes(passed=4)
