"""Device counts and properties, the current device, invalid ordinals, and forked children."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.devices.virtual.api.devices import uuid_of
from gpututor.hardware.gpus import gpu_names, gpu_spec
from gpututor.hardware.scenario import Scenario
from gpututor.protocol.messages import MachineSpec
from gpututor.worker.machine import enter_machine

CUDA: Any = torch.cuda
"""Untyped: torch's stubs do not know all of it."""


@pytest.mark.parametrize("count", range(1, 9))
def test_a_machine_has_up_to_eight_working_gpus(count: int) -> None:
    with virtual_gpu(count):
        assert CUDA.device_count() == count
        last = torch.ones(2, device=f"cuda:{count - 1}") + 1
        assert (last.device.index, last.tolist()) == (count - 1, [2.0, 2.0])
        uuids = {str(CUDA.get_device_properties(index).uuid) for index in range(count)}
        assert len(uuids) == count


@pytest.mark.parametrize(
    ("value", "slots"),
    [
        ("1", [1]),
        ("2,0", [2, 0]),
        ("0, 1", [0, 1]),
        ("", []),
        ("-1", []),
        ("0,-1,1", [0]),
        ("0,7,1", [0]),
        ("1,1", []),
        ("no", []),
        ("1gpu,2", [1, 2]),
        (f"GPU-{uuid_of(2)}", [2]),
        (f"GPU-{uuid_of(1)},GPU-{str(uuid_of(0))[:8]}", [1, 0]),
        ("GPU-ffffffff-0000", []),
        ("MIG-1", []),
    ],
)
def test_cuda_visible_devices_selects_and_orders_gpus(
    monkeypatch: pytest.MonkeyPatch, value: str, slots: list[int]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    with virtual_gpu(3):
        assert CUDA.device_count() == len(slots)
        assert CUDA.is_available() is bool(slots)
        uuids = [str(CUDA.get_device_properties(index).uuid) for index in range(len(slots))]
        assert uuids == [str(uuid_of(slot)) for slot in slots]
    with virtual_gpu(3, obey_environment=False):
        assert CUDA.device_count() == 3


def test_the_grader_ignores_cuda_visible_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    two = MachineSpec(Scenario("two GPUs", 2, ("cuda",), "T4"), "virtual", 0)
    with enter_machine(two, "solution.py"):
        assert torch.cuda.device_count() == 2


@pytest.mark.parametrize(
    ("backends", "driver", "error", "words"),
    [
        ((), "fits", AssertionError, "Torch not compiled with CUDA enabled"),
        (("cuda",), "fits", RuntimeError, "No CUDA GPUs are available"),
        (("cuda",), "missing", RuntimeError, "Found no NVIDIA driver on your system."),
        (("cuda",), "too old", RuntimeError, r"driver on your system is too old \(found version 11040\)"),
    ],
)
def test_a_machine_without_gpus_says_what_is_missing(
    backends: tuple[str, ...], driver: str, error: type[Exception], words: str
) -> None:
    spec = MachineSpec(Scenario("none", 0, backends, "T4", None, driver), "virtual", 0)
    with enter_machine(spec, "solution.py"):
        assert not CUDA.is_available()
        assert torch.backends.cuda.is_built() is ("cuda" in backends)
        assert (torch.version.cuda is None) is ("cuda" not in backends)
        with pytest.raises(error, match=words):
            CUDA.init()
        with pytest.raises(error, match=words):
            torch.zeros(1, device="cuda")


def test_cuda_visible_devices_is_read_at_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with virtual_gpu(3):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1")
        assert CUDA.device_count() == 2
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
        x = torch.ones(2, device="cuda") * 2
        assert x.tolist() == [2.0, 2.0]
        assert str(CUDA.get_device_properties(0).uuid) == str(uuid_of(2))
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            torch.ones(1, device="cuda:1")
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        assert CUDA.device_count() == 1, "CUDA has started"
    with virtual_gpu():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        assert not CUDA.is_available()
        with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
            torch.ones(1, device="cuda")


_WRONG: dict[str, Callable[[], Any]] = {
    "factory": lambda: torch.zeros(1, device="cuda:7"),
    "tensor": lambda: torch.tensor([1.0], device=7),
    "like": lambda: torch.zeros_like(torch.ones(1), device="cuda:7"),
    "new": lambda: torch.ones(1).new_zeros(1, device="cuda:7"),
    "cuda": lambda: torch.ones(1).cuda(7),
    "cuda by device": lambda: torch.ones(1).cuda(torch.device("cuda", 7)),
    "to": lambda: torch.ones(1).to("cuda:7"),
    "to number": lambda: torch.ones(1).to(7),
    "to of a device tensor": lambda: torch.ones(1, device="cuda").to(device="cuda:7"),
    "module": lambda: torch.nn.Linear(1, 1).to("cuda:7"),
    "module cuda": lambda: torch.nn.Linear(1, 1).cuda(7),
    "made there": lambda: torch.nn.Linear(1, 1, device="cuda:7"),
    "set_device": lambda: CUDA.set_device(7),
    "accelerator": lambda: torch.accelerator.set_device_index(7),
    "synchronize": lambda: CUDA.synchronize(7),
    "guard": lambda: CUDA.device(7).__enter__(),
    "generator": lambda: torch.Generator("cuda:7"),
    "rng state": lambda: CUDA.get_rng_state(7),
    "context": lambda: _made_in_context("cuda:7"),
}


def _made_in_context(device: str) -> torch.Tensor:
    with torch.device(device):
        return torch.zeros(1)


@pytest.mark.parametrize("call", _WRONG.values(), ids=_WRONG)
def test_an_invalid_index_raises_invalid_device_ordinal(two_gpus: VirtualMachine, call: Callable[[], Any]) -> None:
    with pytest.raises(torch.AcceleratorError, match=r"^CUDA error: invalid device ordinal\nGPU device may be out of"):
        call()
    assert CUDA.current_device() == 0


@pytest.mark.parametrize("number", [2, 7, -1])
def test_queries_of_a_missing_gpu_raise_assertion_errors(two_gpus: VirtualMachine, number: int) -> None:
    for question in (
        CUDA.get_device_properties,
        CUDA.get_device_name,
        CUDA.get_device_capability,
        lambda index: CUDA.can_device_access_peer(index, 0),
    ):
        with pytest.raises(AssertionError, match=r"^Invalid device id$"):
            question(number)
    with pytest.raises(AssertionError, match=r"^Invalid peer device id$"):
        CUDA.can_device_access_peer(0, number)


def test_other_device_types_are_refused_as_by_torch(two_gpus: VirtualMachine) -> None:
    for question in (CUDA.set_device, CUDA.get_device_name):
        with pytest.raises(ValueError, match=r"^Expected a cuda device, but got: cpu$"):
            question(torch.device("cpu"))
    with pytest.raises(ValueError, match=r"Expected a torch.device with a specified index or an integer, but got:cuda"):
        CUDA.set_device("cuda")
    CUDA.set_device(-1)
    assert CUDA.current_device() == 0


def test_device_guards_nest_and_restore(two_gpus: VirtualMachine) -> None:
    far = torch.ones(1, device="cuda:1")
    with CUDA.device_of(far):
        assert CUDA.current_device() == 1
        with CUDA.device(0):
            assert CUDA.current_device() == 0
        with CUDA.device(-1), CUDA.device_of(torch.ones(1)):
            assert CUDA.current_device() == 1
        with CUDA.device_of(far.untyped_storage()):
            assert CUDA.current_device() == 1
    assert CUDA.current_device() == 0
    with pytest.raises(ZeroDivisionError), CUDA.device("cuda:1"):
        raise ZeroDivisionError
    assert CUDA.current_device() == 0
    assert (CUDA.can_device_access_peer(0, 1), CUDA.can_device_access_peer(1, 1)) == (True, False)


_NEEDS_A_GPU: dict[str, Callable[[], Any]] = {
    "init": lambda: CUDA.init(),
    "current_device": lambda: CUDA.current_device(),
    "get_device_name": lambda: CUDA.get_device_name(),
    "get_device_capability": lambda: CUDA.get_device_capability(0),
    "get_device_properties": lambda: CUDA.get_device_properties("cuda"),
    "initial_seed": lambda: CUDA.initial_seed(),
    "get_rng_state": lambda: CUDA.get_rng_state(),
    "synchronize": lambda: CUDA.synchronize(),
    "current_stream": lambda: CUDA.current_stream(),
    "ipc_collect": lambda: CUDA.ipc_collect(),
    "mem_get_info": lambda: CUDA.mem_get_info(),
    "can_device_access_peer": lambda: CUDA.can_device_access_peer(0, 1),
    "set_device": lambda: CUDA.set_device(0),
    "cuda": lambda: torch.ones(1).cuda(),
    "to": lambda: torch.ones(1).to("cuda:0"),
    "module": lambda: torch.nn.Linear(1, 1).cuda(),
    "factory": lambda: torch.randn(1, device="cuda"),
    "generator": lambda: torch.Generator("cuda"),
    "type": lambda: torch.ones(1).type("torch.cuda.FloatTensor"),
    "tensor type": lambda: CUDA.FloatTensor(2),
}


@pytest.mark.parametrize("call", _NEEDS_A_GPU.values(), ids=_NEEDS_A_GPU)
def test_without_a_gpu_calls_that_need_it_raise_cudas_error(call: Callable[[], Any]) -> None:
    with virtual_gpu(0), pytest.raises(RuntimeError, match=r"^No CUDA GPUs are available$"):
        call()


def test_without_a_gpu_other_calls_answer_as_on_cuda() -> None:
    with virtual_gpu(0):
        assert not CUDA.is_available()
        assert not CUDA.is_initialized()
        assert not CUDA.is_bf16_supported()
        assert CUDA.device_count() == 0
        assert len(CUDA.default_generators) == 0
        assert CUDA.get_rng_state_all() == []
        assert CUDA.memory_allocated() == 0
        assert torch.device("cuda:3").index == 3
        assert torch.backends.cuda.is_built()
        CUDA.manual_seed(1)
        CUDA.manual_seed_all(1)
        torch.manual_seed(1)
        CUDA.empty_cache()
        with CUDA.device(-1), CUDA.device_of(torch.ones(1)):
            assert torch.get_default_device() == torch.device("cpu")


def test_the_accelerator_agrees_with_cuda_in_everything(two_gpus: VirtualMachine) -> None:
    kept = torch.ones(1000, device="cuda:1")
    pairs: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (torch.accelerator.is_available, CUDA.is_available),
        (torch.accelerator.device_count, CUDA.device_count),
        (torch.accelerator.current_device_index, CUDA.current_device),
        (torch.accelerator.memory_allocated, CUDA.memory_allocated),
        (torch.accelerator.memory_reserved, CUDA.memory_reserved),
        (torch.accelerator.max_memory_allocated, CUDA.max_memory_allocated),
        (torch.accelerator.max_memory_reserved, CUDA.max_memory_reserved),
        (torch.accelerator.memory_stats, CUDA.memory_stats),
        (lambda *of: torch.accelerator.current_stream(*of).stream_id, lambda *of: CUDA.current_stream(*of).stream_id),
    ]
    if hasattr(torch.accelerator, "get_memory_info"):  # torch 2.9 has none
        pairs.append((torch.accelerator.get_memory_info, CUDA.mem_get_info))
    for index in (0, 1):
        torch.accelerator.set_device_index(index)
        assert all(ours() == cudas() for ours, cudas in pairs)
        for ours, cudas in pairs[3:]:
            assert ours(index) == cudas(index)
    assert kept.is_cuda
    CUDA.set_device(0)
    with torch.accelerator.device_index(1):
        assert CUDA.current_device() == torch.accelerator.current_device_index() == 1
    assert CUDA.current_device() == 0
    CUDA.reset_peak_memory_stats(1)
    del kept
    torch.accelerator.reset_peak_memory_stats(1)
    assert CUDA.max_memory_allocated(1) == torch.accelerator.max_memory_allocated(1) == 0
    torch.accelerator.empty_cache()
    if hasattr(torch.accelerator, "empty_host_cache"):  # torch 2.11 has none
        torch.accelerator.empty_host_cache()
    assert CUDA.memory_reserved(1) == torch.accelerator.memory_reserved(1) == 0
    torch.accelerator.synchronize(1)


def test_the_device_functions_of_c_share_the_current_device(two_gpus: VirtualMachine) -> None:
    for index in (1, 0):
        torch._C._cuda_setDevice(index)
        assert CUDA.current_device() == torch.ones(1, device="cuda").device.index == index
        CUDA.set_device(1 - index)
        assert torch._C._cuda_getDevice() == 1 - index
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch._C._cuda_setDevice(2)


def test_resets_of_cublas_workspaces_leave_memory_and_products(two_gpus: VirtualMachine) -> None:
    functions: Any = torch._C
    x = torch.ones(64, 64, device="cuda")
    before = (x @ x).sum().item(), CUDA.memory_allocated(), CUDA.memory_reserved()
    functions._cuda_clearCublasWorkspaces()
    functions._cuda_resetCublasWorkspaceSize()
    assert ((x @ x).sum().item(), CUDA.memory_allocated(), CUDA.memory_reserved()) == before


def test_sync_debug_mode_warns_or_raises_on_synchronization(two_gpus: VirtualMachine) -> None:
    words = "called a synchronizing CUDA operation"
    x = torch.ones(3, device="cuda")
    assert CUDA.get_sync_debug_mode() == 0
    CUDA.set_sync_debug_mode("warn")
    assert CUDA.get_sync_debug_mode() == 1
    with pytest.warns(UserWarning, match=words) as caught:
        x.sum().item()
    assert caught[0].filename == __file__
    CUDA.set_sync_debug_mode(2)
    for wait in (
        lambda: x[0].item(),
        x.nonzero,
        x.cpu,
        CUDA.current_stream().synchronize,
        lambda: x.copy_(torch.ones(3)),
    ):
        with pytest.raises(RuntimeError, match=words):
            wait()
    # Neither of these asks (c10/cuda/CUDAFunctions.h).
    event = CUDA.Event()
    event.record()
    event.synchronize()
    CUDA.synchronize()
    CUDA.set_sync_debug_mode("default")
    assert x.sum().item() == 3
    with pytest.raises(RuntimeError, match=r"invalid value of debug_mode"):
        CUDA.set_sync_debug_mode("loud")
    with pytest.raises(RuntimeError, match=r"invalid value of debug_mode, expected one of 0,1,2"):
        CUDA.set_sync_debug_mode(3)


def test_cufft_plan_caches_are_empty_and_keep_their_limit(two_gpus: VirtualMachine) -> None:
    caches: Any = torch.backends.cuda.cufft_plan_cache
    caches[1].max_size = 10
    assert (caches.max_size, caches[1].max_size, caches.size) == (4096, 10, 0)
    caches.clear()
    with pytest.raises(RuntimeError, match=r"expected 0 <= device index < 2, but got device with index 5"):
        caches[5]


def test_a_machine_with_gpus_looks_like_a_cuda_build_with_cudnn() -> None:
    own = torch.version.cuda, torch.backends.cudnn.version()
    with virtual_gpu():
        assert torch.version.cuda is not None
        assert int(torch.version.cuda.split(".")[0]) >= 12
        assert torch.backends.cudnn.is_available()
        assert torch.backends.cudnn.enabled
        assert torch.backends.cudnn.version() // 10000 == 9
        assert torch.backends.cuda.is_built()
    with virtual_gpu(backends=("mps",)):
        assert not torch.version.cuda
        assert not torch.backends.cudnn.is_available()
        assert torch.backends.cudnn.version() is None
    assert (torch.version.cuda, torch.backends.cudnn.version()) == own


def test_properties_match_the_model_and_print_as_on_cuda() -> None:
    with virtual_gpu(2, model="A100 80"):
        assert CUDA.get_device_name(1) == "NVIDIA A100-SXM4-80GB"
        assert CUDA.get_device_capability("cuda:0") == (8, 0)
        result = CUDA.get_device_properties("cuda:1")
        assert CUDA.get_device_properties(0) == CUDA.get_device_properties(None) != result
        assert (result.name, result.gcnArchName) == ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB")
        assert (result.major, result.minor, result.warp_size, result.multi_processor_count) == (8, 0, 32, 108)
        assert result.total_memory == int(79.14 * 2**30)
        assert result.L2_cache_size == 40 * 2**20
        assert result.max_threads_per_multi_processor == 2048
        assert result.regs_per_multiprocessor == 65536
        assert result.shared_memory_per_block == 48 * 1024
        assert result.shared_memory_per_block_optin == 163 * 1024
        assert result.shared_memory_per_multiprocessor == 164 * 1024
        assert (result.is_integrated, result.is_multi_gpu_board) == (0, 0)
        assert len(result.uuid.bytes) == 16
        assert repr(result) == (
            "_CudaDeviceProperties(name='NVIDIA A100-SXM4-80GB', major=8, minor=0, total_memory=81039MB, "
            f"multi_processor_count=108, uuid={uuid_of(1)}, pci_bus_id=2, pci_device_id=0, pci_domain_id=0, "
            "L2_cache_size=40MB)"
        )
        assert type(result).__name__ == "_CudaDeviceProperties"


@pytest.mark.parametrize("name", gpu_names())
def test_every_model_can_be_simulated_with_its_bandwidth(name: str) -> None:
    with virtual_gpu(1, model=name):
        result = CUDA.get_device_properties()
        bytes_per_s = 2 * result.memory_clock_rate * 1e3 * result.memory_bus_width / 8
        assert bytes_per_s == pytest.approx(gpu_spec(name).bytes_per_s, rel=0.025)


_REFUSED = (
    "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use "
    "the 'spawn' start method"
)


def _said_in_child(call: Callable[[], Any]) -> str:
    """Return the result or error of `call` in a forked child, as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(call())
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


_STARTS: dict[str, Callable[[], Any]] = {
    "cuda": lambda: torch.ones(1).cuda(),
    "to": lambda: torch.ones(1).to("cuda:0"),
    "factory": lambda: torch.zeros(1, device="cuda"),
    "module": lambda: torch.nn.Linear(1, 1).cuda(),
    "set_device": lambda: torch.cuda.set_device(0),
    "properties": lambda: torch.cuda.get_device_properties(0),
    "synchronize": lambda: torch.cuda.synchronize(),
    "generator": lambda: torch.Generator("cuda"),
}


@pytest.mark.parametrize("call", _STARTS.values(), ids=_STARTS)
def test_a_forked_child_cannot_use_a_gpu_that_had_started(call: Callable[[], Any]) -> None:
    with virtual_gpu(1):
        torch.ones(1, device="cuda")
        assert _said_in_child(call) == _REFUSED
        assert torch.ones(1).cuda().item() == 1.0


def test_work_on_an_inherited_tensor_raises_an_initialization_error() -> None:
    with virtual_gpu(1):
        x = torch.ones(2, device="cuda")
        for call in (lambda: x + 1, x.cpu, x.clone, lambda: x.add_(1), lambda: x[0].item()):
            assert _said_in_child(call).startswith("AcceleratorError: CUDA error: initialization error\n")
        assert x.tolist() == [1.0, 1.0]


def test_a_forked_child_continues_on_the_cpu() -> None:
    with virtual_gpu(1):
        torch.ones(1, device="cuda")
        assert _said_in_child(lambda: (torch.manual_seed(1).initial_seed(), (torch.ones(2) + 1).tolist())) == (
            "(1, [2.0, 2.0])"
        )
        assert _said_in_child(lambda: (torch.cuda._is_in_bad_fork(), torch.cuda.is_initialized())) == "(True, False)"
        assert not torch.cuda._is_in_bad_fork()


def test_a_child_forked_before_cuda_starts_uses_its_own_gpus() -> None:
    with virtual_gpu(2):
        assert torch.cuda.device_count() == 2
        torch.manual_seed(3)
        assert not torch.cuda.is_initialized()
        assert _said_in_child(lambda: torch.ones(2, device="cuda:1").sum().item()) == "2.0"
        assert not torch.cuda.is_initialized()


@pytest.mark.parametrize("asks_nvml", [False, True])
def test_is_available_starts_the_driver_unless_it_asks_nvml(monkeypatch: pytest.MonkeyPatch, asks_nvml: bool) -> None:
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", str(int(asks_nvml)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with virtual_gpu(2):
        assert torch.cuda.is_available()
        assert not torch.cuda.is_initialized()
        assert _said_in_child(torch.cuda._is_in_bad_fork) == str(not asks_nvml)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        torch.ones(1, device="cuda")
        assert torch.cuda.device_count() == (1 if asks_nvml else 2)


@pytest.mark.parametrize("kind", ["mps", "xpu"])
def test_mps_and_xpu_report_themselves_available_and_refuse_tensors(kind: str) -> None:
    with virtual_gpu(backends=[kind]):
        assert not torch.cuda.is_available()
        assert torch.cuda.device_count() == 0
        assert torch.backends.mps.is_available() is (kind == "mps")
        assert torch.xpu.is_available() is (kind == "xpu")
        assert torch.xpu.device_count() == (1 if kind == "xpu" else 0)
        assert torch.accelerator.current_accelerator() == torch.device(kind)
        assert torch.accelerator.is_available()
        for call in (
            lambda: torch.ones(1, device=kind),
            lambda: torch.ones(1).to(kind),
            lambda: torch.nn.Linear(1, 1).to(torch.device(kind)),
        ):
            with pytest.raises(NotImplementedError, match=f"it cannot compute on {kind}: only choose the device"):
                call()
    assert not torch.backends.mps.is_available() or kind != "xpu"


@pytest.mark.parametrize("backends", [["mps"], ["xpu"], [], ["cuda", "mps"]])
def test_cpu_work_runs_with_every_backend(backends: list[str]) -> None:
    with virtual_gpu(1, backends=backends):
        torch.manual_seed(3)
        model = torch.nn.Linear(2, 1)
        stepper = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 2)).sum().backward()
        stepper.step()
        if backends:
            torch.accelerator.synchronize()
            assert torch.accelerator.current_device_index() == 0
            assert torch.accelerator.device_count() == 1
        else:
            assert torch.accelerator.current_accelerator() is None
            assert not torch.cuda.is_available()
            with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
                torch.accelerator.current_device_index()
