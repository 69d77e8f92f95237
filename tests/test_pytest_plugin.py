"""`pytest --virtual-gpus N` on other projects' tests: option, ini values, marker, fixture, tracebacks."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gpututor import __version__
from gpututor.devices.virtual import machine, virtual_gpu

pytest_plugins = ["pytester"]
# By name, because the entry point may not be installed; if it is, this is the same plugin.
PLUGIN = ("-p", "gpututor.pytest_plugin")


@pytest.fixture(autouse=True)
def _no_machine_afterwards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with virtual_gpu():  # imports all modules, which pytester would forget again
        pass
    yield
    assert not machine.is_on()


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run a session with the plugin in this process."""
    return pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", "-p", "no:asyncio", *arguments)


def test_gpus_exist_before_the_first_conftest_and_during_collection(pytester: pytest.Pytester) -> None:
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


def test_gpus_come_from_options_before_the_ini_file_or_not_at_all(pytester: pytest.Pytester) -> None:
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


def test_each_test_starts_with_new_generators_cache_and_peaks(pytester: pytest.Pytester) -> None:
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


def test_a_marked_test_and_its_fixtures_get_their_own_machine(pytester: pytest.Pytester) -> None:
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


def test_the_sessions_machine_returns_after_a_marked_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        import torch

        OF_THE_SESSION = torch.ones(2, device="cuda")

        @pytest.mark.virtual_gpu(count=4, memory=2**20)
        def test_marked(virtual_gpu):
            assert torch.cuda.device_count() == len(virtual_gpu.gpus) == 4
            assert torch.cuda.get_device_name() == "Tesla T4"
            assert torch.cuda.mem_get_info()[1] == 2**20
            with pytest.raises(RuntimeError, match="Another virtual GPU is on now"):
                OF_THE_SESSION + 1

        def test_after_it(virtual_gpu):
            assert torch.cuda.device_count() == len(virtual_gpu.gpus) == 1
            assert "H100" in torch.cuda.get_device_name()
            assert (OF_THE_SESSION + 1).tolist() == [2.0, 2.0]
        """
    )
    run(pytester, "--virtual-gpus=1", "--virtual-gpu-model=H100").assert_outcomes(passed=2)


def test_the_header_counts_visible_gpus_and_outer_machines_return(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile("import torch\ndef test_it(): assert torch.cuda.device_count() == 1\n")
    with virtual_gpu(2) as outer:
        run(pytester, "--virtual-gpus=1").assert_outcomes(passed=1)
        assert machine.active_machine() is outer
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    pytester.makepyfile("import torch\ndef test_it(): assert torch.cuda.device_count() == 1\n")
    result = run(pytester, "--virtual-gpus=2")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["virtual GPU: 2 x Tesla T4 (modelled by *), 1 of them visible by CUDA_VISIBLE_DEVICES"]
    )


@pytest.mark.long
def test_workers_of_xdist_have_the_gpus(pytester: pytest.Pytester) -> None:
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


def test_the_plugin_imports_torch_only_for_gpus(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass\n")
    command = [sys.executable, "-c", _WITHOUT_TORCH]
    plain = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert plain.returncode == pytest.ExitCode.OK, plain.stdout + plain.stderr
    asked = subprocess.run([*command, "--virtual-gpus=1"], capture_output=True, text=True, check=False, timeout=60)
    assert asked.returncode == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: --virtual-gpus: No module named 'torch'" in asked.stderr


def test_a_traceback_shows_only_the_users_lines(pytester: pytest.Pytester) -> None:
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


def test_a_suites_own_machine_replaces_the_sessions(pytester: pytest.Pytester) -> None:
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


def test_a_modules_machine_works_without_a_sessions_machine(pytester: pytest.Pytester) -> None:
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
    after = "import torch\ndef test_after():\n    assert torch.cuda.is_available.__module__ == 'torch.cuda'\n"
    pytester.makepyfile(test_z=after)
    run(pytester).assert_outcomes(passed=4)


@pytest.mark.parametrize(
    ("arguments", "ini", "origin"),
    [
        (["--virtual-gpus=9"], "", "--virtual-gpus: *"),
        (["--virtual-gpus=two"], "", "--virtual-gpus: *"),
        (["--virtual-gpus=-1"], "", "--virtual-gpus: *"),
        (["--virtual-gpus=1", "--virtual-gpu-model=H10"], "", "--virtual-gpu-model: *'H100'*"),
        (["--virtual-gpus=1", "--virtual-gpu-memory=lots"], "", "--virtual-gpu-memory: *"),
        (["--virtual-gpus=1", "--virtual-gpu-memory=2000"], "", "--virtual-gpu-memory: *"),
        (["--virtual-gpu-model=H100"], "", "--virtual-gpu-model needs --virtual-gpus N."),
        (["-o", "virtual_gpus=many"], "", "virtual_gpus: *"),
        (["-o", "virtual_gpu_model=H100"], "", "virtual_gpu_model needs virtual_gpus."),
        ([], "virtual_gpus = many", "virtual_gpus in *tox.ini: *"),
        ([], "virtual_gpu_model = H100", "virtual_gpu_model in *tox.ini needs virtual_gpus."),
    ],
)
def test_an_impossible_value_is_a_usage_error_that_names_its_origin(
    pytester: pytest.Pytester, arguments: list[str], ini: str, origin: str
) -> None:
    if ini:
        pytester.makeini(f"[pytest]\n{ini}\n")
    result = run(pytester, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {origin}"])


def test_an_impossible_marker_fails_its_test_and_names_the_key(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.virtual_gpu(model="A10")
        def test_model(): ...

        @pytest.mark.virtual_gpu(gpus=2)
        def test_argument(): ...

        @pytest.mark.virtual_gpu(1, "T4", "1GiB", 3)
        def test_values(): ...

        @pytest.mark.virtual_gpu(memory="1024")
        def test_unit(): ...

        def test_after_them(): ...
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=1, errors=4)
    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.virtual_gpu: model: *'A10G'*",
            "@pytest.mark.virtual_gpu: *'gpus'; * count, model, memory",
            "@pytest.mark.virtual_gpu: * too many values; *",
            "@pytest.mark.virtual_gpu: memory: *'1024'*",
        ]
    )
