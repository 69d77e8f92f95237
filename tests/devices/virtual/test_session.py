"""Entering and leaving the virtual GPU, and options and errors of `python -m gpututor.devices.virtual`."""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.backends.cuda import is_flash_attention_available

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import host_tensor, is_virtual, torch_private, virtual_gpu
from gpututor.devices.virtual.operator_registry import operator_of
from gpututor.devices.virtual.options import parse_size
from gpututor.devices.virtual.patches import CPU_BUILD, CUDA_BUILD, PATCHES, TIME
from gpututor.devices.virtual.session import idle_machine
from gpututor.trace.events import Kind
from tests.support.virtual_gpus import printed, run_python

_ABSENT = object()


@pytest.fixture(params=[nullcontext, idle_machine], ids=["alone", "in an idle machine"])
def surroundings(request: pytest.FixtureRequest) -> Iterator[None]:
    """Enter each machine of a test as a program does, or as a worker does."""
    before = _attributes()
    with request.param():
        yield
    assert _attributes() == before


def _attributes() -> dict[str, object]:
    results = {}
    for patch in (*PATCHES, *TIME, *CUDA_BUILD, *CPU_BUILD):
        results[f"{patch.owner}.{patch.name}"] = vars(patch.owner_object()).get(patch.name, _ABSENT)
    results["loaders"] = tuple(torch_private.storage_loaders)
    return results


def test_torch_is_restored_after_each_session() -> None:
    before = _attributes()
    for count in (1, 0, 3):
        with virtual_gpu(count):
            during = _attributes()
            assert {name for name in before if during[name] is before[name]} <= {"torch.cuda._initialized"}
            assert torch.cuda.device_count() == count
        after = _attributes()
        assert all(after[name] is before[name] for name in before if name != "loaders")
        assert after["loaders"] == before["loaders"]
        assert (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()) == (0, 0)


def _fail_with_a_default_device() -> None:
    torch.set_default_device("cuda")
    raise ZeroDivisionError


@pytest.mark.usefixtures("surroundings")
def test_torch_is_restored_after_an_exception_too() -> None:
    before = _attributes()
    with pytest.raises(ZeroDivisionError), virtual_gpu(1):
        _fail_with_a_default_device()
    assert _attributes() == before
    assert torch.ones(1).device.type == "cpu"


@pytest.mark.usefixtures("surroundings")
@pytest.mark.parametrize("pop", [torch.overrides._pop_mode, torch.utils._python_dispatch._pop_mode])
def test_leaving_after_a_mode_was_popped_says_so(pop: Callable[[], object]) -> None:
    before = torch.utils._python_dispatch.is_in_torch_dispatch_mode()
    with pytest.raises(RuntimeError, match="push back each mode that you pop"), virtual_gpu():
        pop()
    assert (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()) == (0, 0)
    assert torch.utils._python_dispatch.is_in_torch_dispatch_mode() is before
    with virtual_gpu(), torch.overrides._pop_mode_temporarily():
        pass


@pytest.mark.usefixtures("surroundings")
def test_each_machine_starts_fresh() -> None:
    with virtual_gpu(2):
        torch.cuda.set_device(1)
        torch.cuda.manual_seed(7)
        kept = torch.rand(100, device="cuda")
    with virtual_gpu(2):
        assert torch.cuda.current_device() == 0
        assert torch.cuda.memory_allocated(1) == 0
        first = torch.rand(2, device="cuda").tolist()
    with virtual_gpu(2):
        assert torch.rand(2, device="cuda").tolist() == first
    assert is_virtual(kept)


@pytest.mark.parametrize(
    "use",
    [
        lambda old: old + 1,
        lambda old: old + old,
        lambda old: old + torch.ones(2, device="cuda"),
        lambda old: torch.ones(2, device="cuda:0").add_(old),
        lambda old: old + torch.ones(2),
        lambda old: old.cpu(),
        lambda old: old.to("cuda:0", torch.float64),
        lambda old: torch.ones(2).copy_(old),
        lambda old: old[0].item(),
        lambda old: old.tolist(),
        lambda old: old.view(2, 1),
        lambda old: old.unsqueeze_(0),
        lambda old: copy.deepcopy(old),
        lambda old: torch.save(old, io.BytesIO()),
    ],
)
@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
@pytest.mark.usefixtures("surroundings")
def test_a_tensor_of_an_earlier_machine_raises_on_a_later_machine(
    use: Callable[[torch.Tensor], object], device: str
) -> None:
    with virtual_gpu(2):
        old = torch.ones(2, device=device)
    with virtual_gpu(1):
        with pytest.raises(
            RuntimeError, match=r"is on a virtual GPU that is switched off\. Another virtual GPU is on now"
        ):
            use(old)
        assert repr(old) == f"tensor([1., 1.], device='{device}')"
        assert host_tensor(old).tolist() == [1.0, 1.0]
        assert torch.cuda.memory_allocated() == 0


def test_two_machines_at_once_are_refused() -> None:
    for enter in (virtual_gpu, idle_machine):
        with virtual_gpu(1), pytest.raises(RuntimeError, match="is on already"), enter():
            pass
    with virtual_gpu(1):
        pass


@pytest.mark.usefixtures("surroundings")
def test_a_program_leaves_nothing_to_the_next() -> None:
    with virtual_gpu(1):
        torch.set_default_device("cuda")
        torch.cuda.nvtx.range_push("open")
        host = torch.ones(2, device="cpu").pin_memory()
        assert (torch.version.cuda is None, is_flash_attention_available()) == (False, True)
    with virtual_gpu(1, backends=()):
        assert not torch.cuda.is_available()
        assert (torch.version.cuda is None, is_flash_attention_available()) == (True, False)
    with virtual_gpu(1, recorder=(recorder := Recorder())):
        assert not host.is_pinned()
        assert torch.version.cuda is not None
        assert torch.ones(1).device.type == "cpu"
        torch.cuda.nvtx.range_pop()
        assert Kind.RANGE not in recorder.trace.kinds()


@pytest.mark.usefixtures("surroundings")
def test_the_next_program_can_define_an_operator_of_the_same_name_anew() -> None:
    for factor in (2, 3):
        with virtual_gpu(1):

            @torch.library.custom_op("gpututor_tests::scaled", mutates_args=())
            def scaled(x: torch.Tensor, factor: int = factor) -> torch.Tensor:
                return x * factor

            assert scaled(torch.ones(2, device="cuda")).tolist() == [factor, factor]


def test_records_of_torchs_operators_are_made_once() -> None:
    with virtual_gpu(1):
        torch.ones(2, device="cuda").tanh()
    record = operator_of(torch.ops.aten.tanh.default)
    with virtual_gpu(2):
        assert operator_of(torch.ops.aten.tanh.default) is record


@pytest.mark.parametrize(("count", "backends"), [(-1, ["cuda"]), (9, ["cuda"]), (1, ["tpu"])])
def test_impossible_machines_are_refused(count: int, backends: list[str]) -> None:
    with pytest.raises(ValueError, match=r"0 to 8|unknown backends"), virtual_gpu(count, backends=backends):
        pass


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"count": "H100"}, TypeError, r"count is the number of GPUs: .* not 'H100'\. The model .*\(model='H100'\)"),
        ({"count": 1.5}, TypeError, "count is the number of GPUs: an int from 0 to 8, not 1.5"),
        ({"count": True}, TypeError, "count is the number of GPUs: an int from 0 to 8, not True"),
        ({"model": None}, TypeError, "model is the name of a GPU, such as 'T4' or 'H100', not None"),
        ({"model": 3}, TypeError, "model is the name of a GPU, such as 'T4' or 'H100', not 3"),
        ({"memory_bytes": "1GiB"}, TypeError, "memory_bytes is the memory .* a positive int, .* not '1GiB'"),
        ({"memory_bytes": 1e9}, TypeError, "memory_bytes is the memory .* a positive int"),
        ({"memory_bytes": -1}, ValueError, "memory_bytes is the memory .* a positive int, not -1"),
        ({"memory_bytes": 0}, ValueError, "memory_bytes is the memory .* a positive int, not 0"),
    ],
)
def test_invalid_arguments_are_named_in_the_error(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words), virtual_gpu(**arguments):
        pass


def test_every_patch_has_a_reason_and_is_declared_once() -> None:
    names = [(patch.owner, patch.name) for patch in (*PATCHES, *TIME)]
    assert len(set(names)) == len(names)
    assert all(len(patch.why) > 10 for patch in (*PATCHES, *TIME))


def test_importing_is_cheap_and_specs_need_no_torch() -> None:
    code = (
        "import sys; from gpututor.hardware.gpus import gpu_spec; gpu_spec('T4'); assert 'torch' not in sys.modules\n"
        "import torch; import torch.utils._python_dispatch as d\n"
        "class Any(d.TorchDispatchMode):\n"
        "    def __torch_dispatch__(self, func, types, args=(), kwargs=None): raise SystemExit(f'computed {func}')\n"
        "with Any():\n"
        "    from gpututor.devices.virtual import virtual_gpu\n"
        "import threading; assert threading.active_count() == 1\n"
    )
    assert printed("-c", code) == ""


def test_nested_factories_are_virtual_even_where_a_real_gpu_is_in_use() -> None:
    with virtual_gpu(1) as machine:
        for machine.may_have_real_tensors in (False, True):
            assert is_virtual(torch.ops.aten.zeros.default([2], device=torch.device("cuda:0")))
            rows, columns = torch.unravel_index(torch.tensor([22, 41, 37], device="cuda"), (7, 6))
            assert (rows.tolist(), columns.tolist()) == ([3, 6, 6], [4, 5, 1])


def in_a_thread_that_outlives(call: Callable[[torch.Tensor, Any, Any], Any]) -> BaseException | None:
    """Return the exception of `call` after the machine is left, in a thread that started inside it."""
    results: list[BaseException] = []
    over = threading.Event()

    def work(x: torch.Tensor, stream: Any, event: Any) -> None:
        while not over.is_set():
            pass
        try:
            call(x, stream, event)
        except Exception as error:
            results.append(error)

    with virtual_gpu(1, "A100"):
        x, stream, event = torch.ones((), device="cuda"), torch.cuda.Stream(), torch.cuda.Event()
        event.record()
        thread = threading.Thread(target=work, args=(x, stream, event))
        thread.start()
    over.set()
    thread.join()
    return results[0] if results else None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, stream, event: x.item(), "This tensor is on a virtual GPU that is switched off"),
        (lambda x, stream, event: float(x), "This tensor is on"),
        (lambda x, stream, event: x + 1, "This tensor is on"),
        (lambda x, stream, event: stream.synchronize(), "This stream is on a virtual GPU that is switched off"),
        (lambda x, stream, event: stream.query(), "This stream is on"),
        (lambda x, stream, event: event.synchronize(), "This event is on a virtual GPU that is switched off"),
        (lambda x, stream, event: event.query(), "This event is on"),
        (lambda x, stream, event: event.record(), "This event is on"),
        # In the middle of a call, when the device has been told to C++.
        (lambda x, stream, event: torch.ones(2, device="meta:0"), "this thread works on is switched off"),
    ],
)
def test_device_calls_raise_in_a_thread_that_outlives_the_machine(call: Callable[..., Any], words: str) -> None:
    error = in_a_thread_that_outlives(call)
    assert isinstance(error, RuntimeError)
    assert words in str(error)
    assert "meta" not in str(error)


def test_a_thread_that_outlives_the_machine_may_use_meta_tensors() -> None:
    def call(x: torch.Tensor, stream: Any, event: Any) -> None:
        assert torch.ones(2).sum().item() == 2
        assert torch.ones(2, device="meta").sum().shape == ()

    assert in_a_thread_that_outlives(call) is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "-m"),
        (["-m"], "-m"),
        (["--model", "Z9", "x.py"], "Z9"),
        (
            ["--gpus", "1", "torchrun", "train.py"],
            "torchrun is a command, but a Python file is needed.\nUse -m torch.distributed.run.",
        ),
        (["python", "plain.py"], "python is a command, but a Python file is needed.\nLeave it out: plain.py"),
        (["python3.11"], "python3.11 is a command, but a Python file is needed.\nLeave it out: SCRIPT"),
        (["env"], "env is a command, but a Python file is needed.\nName a file, or a module after -m."),
        (["nowhere.py"], "There is no file nowhere.py."),
        (["--gpus", "9", "x.py"], "argument --gpus: a machine has 0 to 8 virtual GPUs, not 9"),
        (["--gpus", "H100", "x.py"], "argument --gpus: a machine has 0 to 8 virtual GPUs, not H100"),
        (["--memory", "512", "x.py"], "argument --memory: '512' has no unit: write 512MiB or 16GiB"),
        (["--memory", "0MiB", "x.py"], "argument --memory: '0MiB' is not a size of memory: write 512MiB or 16GiB"),
        (["--memory-mib", "-3", "x.py"], "argument --memory-mib: a whole number, not '-3'"),
        (["--memory", "1GiB", "--memory-mib", "3", "x.py"], "not allowed with argument --memory"),
    ],
)
def test_invalid_options_are_usage_errors(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = run_python("-m", "gpututor.devices.virtual", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("memory", [["--memory", "0.5GiB"], ["--memory-mib", "512"]])
def test_a_script_runs_with_its_arguments_on_the_chosen_machine(memory: list[str], tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("import torch\ncount = torch.cuda.device_count()")
    (tmp_path / "script.py").write_text(
        "import sys, torch, beside\n"
        "print(sys.argv[1:], beside.count, torch.cuda.get_device_name(), torch.cuda.mem_get_info()[1])"
    )
    command = ["-m", "gpututor.devices.virtual", "--gpus", "2", "--model", "H100", *memory, "script.py", "--gpus", "x"]
    assert printed(*command, cwd=tmp_path) == f"['--gpus', 'x'] 2 NVIDIA H100 80GB HBM3 {2**29}\n"


@pytest.mark.parametrize(
    ("word", "size"), [("512MiB", 2**29), ("16 GB", 16 * 10**9), ("1.5gib", 3 << 29), ("7B", 7), (" 2KiB ", 2048)]
)
def test_sizes_are_parsed_with_their_unit(word: str, size: int) -> None:
    assert parse_size(word) == size
