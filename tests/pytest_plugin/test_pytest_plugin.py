"""`pytest --virtual-gpus N` on other projects' tests: the option, the ini values, the marker and the fixture."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpututor import __version__
from gpututor.devices.virtual import machine, virtual_gpu
from tests.support.pytest_sessions import PLUGIN, run

pytest_plugins = ["pytester"]


def test_the_gpus_are_there_before_the_first_conftest_and_while_modules_are_collected(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest("import torch\nSEEN = torch.cuda.device_count()\n")
    pytester.makepyfile(
        """
        import pytest
        import torch
        from conftest import SEEN

        ON_THE_DEVICE = torch.ones(3, device="cuda:1")

        @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
        def test_runs():
            assert SEEN == 2
            assert (ON_THE_DEVICE * 2).sum().item() == 6

        @pytest.mark.parametrize("device", [f"cuda:{i}" for i in range(torch.cuda.device_count())])
        def test_each(device):
            assert torch.zeros(1, device=device).device == torch.device(device)
            assert torch.cuda.get_device_name(device) == "NVIDIA H100 80GB HBM3"
            assert torch.cuda.get_device_properties(device).total_memory == 512 * 2**20
        """
    )
    result = run(pytester, "--virtual-gpus=2", "--virtual-gpu-model=h100", "--virtual-gpu-memory", "512MiB")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines([f"virtual GPU: 2 x NVIDIA H100 80GB HBM3 (modelled by gpututor {__version__})"])


def test_the_ini_file_may_ask_and_the_command_line_has_the_last_word(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nvirtual_gpus = 1\nvirtual_gpu_model = L4\nvirtual_gpu_memory = 1GiB\n")
    pytester.makepyfile(
        """
        import torch

        def test_prints():
            memory = torch.cuda.get_device_properties(0).total_memory
            print("saw", torch.cuda.device_count(), torch.cuda.get_device_name(), memory)
        """
    )
    run(pytester, "-s").stdout.fnmatch_lines([f"*saw 1 NVIDIA L4 {2**30}*"])
    given = run(pytester, "-s", "--virtual-gpus=3", "--virtual-gpu-memory=2000B")
    given.stdout.fnmatch_lines(["*saw 3 NVIDIA L4 2000*"])


def test_without_the_option_there_is_no_gpu_and_no_header(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from gpututor.devices.virtual import machine

        def test_nothing_is_on():
            assert not machine.is_on()
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("virtual GPU*")


def test_generators_kept_memory_and_peaks_are_new_in_each_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import torch

        KEPT = torch.zeros(512, device="cuda")
        DRAWN = []

        def use_it():
            assert torch.cuda.memory_allocated() == torch.cuda.max_memory_allocated() == 2048
            reserved = torch.cuda.memory_reserved()
            DRAWN.append(torch.rand(4, device="cuda").tolist())
            big = torch.empty(2**26, device="cuda")
            assert torch.cuda.max_memory_allocated() > 2**28 > reserved
            assert torch.cuda.memory_reserved() > reserved

        def test_one():
            use_it()

        def test_two():
            use_it()
            assert DRAWN[0] == DRAWN[1]
        """
    )
    run(pytester, "--virtual-gpus=1").assert_outcomes(passed=2)


def test_a_marked_test_gets_its_own_machine_and_so_do_its_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        import torch
        from gpututor.devices.virtual import machine

        @pytest.fixture
        def weights():
            return torch.ones(2, device="cuda:1")

        @pytest.mark.virtual_gpu(count=2, model="A100 80", memory="1GiB")
        def test_marked(weights):
            assert str(weights.device) == "cuda:1"
            assert "A100" in torch.cuda.get_device_name()
            assert torch.cuda.mem_get_info()[1] == 2**30

        @pytest.mark.virtual_gpu
        def test_as_it_comes(virtual_gpu):
            assert torch.cuda.get_device_name() == "Tesla T4"
            assert len(virtual_gpu.gpus) == torch.cuda.device_count() == 1

        def test_by_the_fixture_alone(virtual_gpu):
            assert torch.cuda.is_available()
            assert virtual_gpu is machine.active_machine()

        def test_unmarked():
            assert not machine.is_on()
        """
    )
    run(pytester, "--strict-markers").assert_outcomes(passed=4)


def test_a_marked_test_has_another_machine_than_the_session_and_gives_it_back(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        import torch

        OF_THE_SESSION = torch.ones(2, device="cuda")

        @pytest.mark.virtual_gpu(count=4)
        def test_marked(virtual_gpu):
            assert torch.cuda.device_count() == len(virtual_gpu.gpus) == 4
            with pytest.raises(RuntimeError, match="Another one is on now"):
                OF_THE_SESSION + 1

        def test_after_it(virtual_gpu):
            assert torch.cuda.device_count() == len(virtual_gpu.gpus) == 1
            assert (OF_THE_SESSION + 1).tolist() == [2.0, 2.0]
        """
    )
    run(pytester, "--virtual-gpus=1").assert_outcomes(passed=2)


def test_the_fixture_gives_the_markers_machine_else_the_sessions(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        import torch

        def test_unmarked(virtual_gpu):
            assert len(virtual_gpu.gpus) == 2 and "H100" in torch.cuda.get_device_name()

        @pytest.mark.virtual_gpu(memory=2**20)
        def test_marked(virtual_gpu):
            assert len(virtual_gpu.gpus) == 1 and torch.cuda.get_device_name() == "Tesla T4"
            assert torch.cuda.mem_get_info()[1] == 2**20
        """
    )
    run(pytester, "--virtual-gpus=2", "--virtual-gpu-model=H100").assert_outcomes(passed=2)


def test_a_session_inside_a_session_has_its_own_machine_and_gives_the_other_back(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import torch\ndef test_it(): assert torch.cuda.device_count() == 1\n")
    with virtual_gpu(2) as outer:
        run(pytester, "--virtual-gpus=1").assert_outcomes(passed=1)
        assert machine.active_machine() is outer


def test_the_header_says_when_the_environment_hides_gpus(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    pytester.makepyfile("import torch\ndef test_it(): assert torch.cuda.device_count() == 1\n")
    result = run(pytester, "--virtual-gpus=2")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["virtual GPU: 2 x Tesla T4 (modelled by *), 1 of them visible by CUDA_VISIBLE_DEVICES"]
    )


@pytest.mark.long
def test_workers_of_xdist_have_the_gpus_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os
        import pytest
        import torch

        @pytest.mark.parametrize("index", range(torch.cuda.device_count()))
        def test_it(index):
            assert os.environ["PYTEST_XDIST_WORKER"] == "gw0"
            assert torch.ones(2, device=f"cuda:{index}").sum().item() == 2
        """
    )
    result = pytester.runpytest_subprocess(*PLUGIN, "-p", "xdist", "-n", "1", "--virtual-gpus=3")
    result.assert_outcomes(passed=3)


_WITHOUT_TORCH = """
import sys
from collections.abc import Iterator
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('torch', 'numpy'):
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
sys.meta_path.insert(0, NoTorch())
import pytest
sys.exit(pytest.main(['-p', 'gpututor.pytest_plugin', '-p', 'no:cacheprovider', *sys.argv[1:]]))
"""


def test_the_plugin_needs_torch_only_when_it_is_asked_for_gpus(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass\n")
    command = [sys.executable, "-c", _WITHOUT_TORCH]
    plain = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert plain.returncode == pytest.ExitCode.OK, plain.stdout + plain.stderr
    asked = subprocess.run([*command, "--virtual-gpus=1"], capture_output=True, text=True, check=False, timeout=60)
    assert asked.returncode == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: --virtual-gpus: No module named 'torch'" in asked.stderr
