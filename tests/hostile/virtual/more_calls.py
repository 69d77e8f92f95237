"""More calls that could crash a process, added to CALLS: compilers, threads, the engine, odd moments."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from typing import Any

import torch as typed_torch

from tests.hostile.virtual.calls import call, calls, leaf, nn, ones, torch

calls(
    "jit",
    trace=lambda d: torch.jit.trace(nn.Linear(2, 2).to(d), ones(d, 1, 2)) and None,
    script=lambda d: torch.jit.script(nn.Linear(2, 2).to(d)) and None,
    script_then_move=lambda d: torch.jit.script(nn.Linear(2, 2)).to(d) and None,
    scripted_function=lambda d: torch.jit.script(_twice)(ones(d)),
    freeze=lambda d: torch.jit.freeze(torch.jit.script(nn.Linear(2, 2).eval()).to(d)) and None,
    fork=lambda d: torch.jit.wait(torch.jit.fork(_twice, ones(d))),
    compile=lambda d: torch.compile(_twice)(ones(d)),
    export=lambda d: torch.export.export(nn.Linear(2, 2).to(d), (ones(d, 1, 2),)) and None,
    fx=lambda d: torch.fx.symbolic_trace(nn.Linear(2, 2).to(d))(ones(d, 1, 2)).shape,
    vmap=lambda d: torch.vmap(_twice)(ones(d)),
    functionalize=lambda d: torch.func.functionalize(_twice)(ones(d)),
    jvp=lambda d: torch.func.jvp(_twice, (ones(d),), (ones(d),))[1],
    fake=lambda d: _in_fake_mode(d),
    deploy=lambda d: torch.library.custom_op("hostile::twice", _twice, mutates_args=())(ones(d)) and None,
)


def _twice(x: typed_torch.Tensor) -> typed_torch.Tensor:
    return x * 2


def _in_fake_mode(device: str) -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(2, device=device).shape


class _Fails(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        raise ValueError("on purpose")


class _WrongShape(_Fails):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient.new_ones(7)


class _OnHost(_Fails):
    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient.cpu()


def _hooked(device: str, hook: Any) -> Any:
    x = leaf(device)
    (y := x * 2).register_hook(hook)
    y.sum().backward()
    return x.grad


calls(
    "backward",
    raises=lambda d: _Fails.apply(leaf(d)).sum().backward(),
    wrong_shape=lambda d: _WrongShape.apply(leaf(d)).sum().backward(),
    on_host=lambda d: _OnHost.apply(leaf(d)).sum().backward(),
    twice=lambda d: [loss.backward() for loss in [leaf(d).exp().sum()] * 2] and None,
    no_grad=lambda d: ones(d).sum().backward(),
    not_a_scalar=lambda d: (leaf(d) * 2).backward(),
    changed_in_place=lambda d: _changed_in_place(d),
    hook_gives_text=lambda d: _hooked(d, lambda gradient: "no"),
    hook_gives_shape=lambda d: _hooked(d, lambda gradient: gradient.sum()),
    hook_raises=lambda d: _hooked(d, lambda gradient: 1 / 0),
    leaf_in_place=lambda d: leaf(d).add_(1),
    view_in_no_grad=lambda d: _view_made_without_grad(d),
    wrong_inputs=lambda d: torch.autograd.grad(leaf(d).sum(), ones(d)),
    unused=lambda d: torch.autograd.grad(leaf(d).sum(), leaf(d)),
    anomaly=lambda d: _anomaly(d),
    multithreaded=lambda d: _backward_in_thread(d),
    gradgrad=lambda d: torch.autograd.gradgradcheck(_twice, leaf(d, 2).double().detach().requires_grad_()),
)


def _changed_in_place(device: str) -> Any:
    x = leaf(device)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def _view_made_without_grad(device: str) -> Any:
    x = leaf(device).clone()
    with torch.no_grad():
        view = x[0]
    view.add_(1)


def _anomaly(device: str) -> Any:
    with torch.autograd.detect_anomaly():
        torch.sqrt(leaf(device) * -1).sum().backward()


def _backward_in_thread(device: str) -> Any:
    x = leaf(device)
    y = (x * 3).sum()
    thread = threading.Thread(target=y.backward)
    thread.start()
    thread.join()
    return x.grad


@call
def copied_in_many_threads(device: str) -> Any:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).to(device)
    copies: list[Any] = []
    threads = [threading.Thread(target=lambda: copies.append(copy.deepcopy(model))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(copied[0].weight.equal(model[0].weight) for copied in copies)


@call
def collected_while_in_use(device: str) -> Any:
    cycle: list[Any] = [ones(device)]
    cycle.append(cycle)
    watched = weakref.ref(cycle[0])
    x = leaf(device) * 2
    del cycle
    gc.collect()
    x.sum().backward()
    gc.collect()
    return watched() is None


@call
def collected_in_a_hook(device: str) -> Any:
    return _hooked(device, lambda gradient: gc.collect() and None)


@call
def resurrected(device: str) -> Any:
    kept: list[Any] = []

    class Phoenix:
        def __init__(self) -> None:
            self.tensor = ones(device)

        def __del__(self) -> None:
            kept.append(self.tensor)

    bird = Phoenix()
    del bird
    gc.collect()
    return kept[0] + 1


@call
def graph_of_a_hundred_thousand(device: str) -> Any:
    x = leaf(device, 1)
    y = x
    for _ in range(3000):
        y = y + 1
    y.backward()
    del y
    return x.grad


@call
def attribute_cycles(device: str) -> Any:
    x: Any = ones(device)
    x.myself = x
    watched = weakref.ref(x)
    del x
    gc.collect()
    return watched() is None


@call
def modules_moved_in_a_forward_hook(device: str) -> Any:
    model = nn.Linear(2, 2)
    model.register_forward_pre_hook(lambda module, inputs: module.to(device) and None)
    return model(ones(device, 1, 2)).shape


calls(
    "modules",
    to_empty=lambda d: nn.Linear(2, 2, device="meta").to_empty(device=d).weight.shape,
    meta_to=lambda d: nn.Linear(2, 2, device="meta").to(d),
    lazy=lambda d: nn.LazyLinear(2).to(d)(ones(d, 1, 3)).shape,
    share_memory=lambda d: nn.Linear(1, 1).to(d).share_memory().weight.shape,
    parametrised=lambda d: nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)).to(d)(ones(d, 1, 2)).shape,
    flatten=lambda d: nn.LSTM(2, 2).to(d).flatten_parameters(),
    quantised_module=lambda d: torch.ao.quantization.quantize_dynamic(nn.Linear(2, 2).to(d)) and None,
    sparse_embedding=lambda d: _sparse_step(d),
    load_assign=lambda d: nn.Linear(1, 1).to(d).load_state_dict(nn.Linear(1, 1).state_dict(), assign=True) and None,
    load_wrong=lambda d: nn.Linear(1, 1).to(d).load_state_dict(nn.Linear(2, 2).state_dict()) and None,
    lbfgs=lambda d: _lbfgs(d),
    grad_scaler=lambda d: torch.amp.GradScaler(d).scale(ones(d, 1)),
    share_tensor=lambda d: ones(d).share_memory_(),
    queue=lambda d: _through_a_queue(d),
)


def _sparse_step(device: str) -> Any:
    table = nn.Embedding(3, 2, sparse=True).to(device)
    table(torch.tensor([1], device=device)).sum().backward()
    torch.optim.SparseAdam(list(table.parameters())).step()
    return table.weight.shape


def _lbfgs(device: str) -> Any:
    x = leaf(device, 2)
    torch.optim.LBFGS([x]).step(lambda: (loss := (x**2).sum(), x.grad is None and loss.backward())[0])
    return x.shape


def _through_a_queue(device: str) -> Any:
    queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
    queue.put(ones(device))
    return queue.get()


calls(
    "private",
    raw_stream=lambda d: torch._C._cuda_getCurrentRawStream(0) and None,
    set_stream=lambda d: torch._C._cuda_setStream(stream_id=0, device_index=0, device_type=1) and None,
    init=lambda d: torch._C._cuda_init() and None,
    sleep=lambda d: torch._C._cuda_sleep(1) and None,
    ipc=lambda d: ones(d).untyped_storage()._share_cuda_() and None,
    new_shared=lambda d: torch.UntypedStorage._new_shared_cuda(0, b"", 1, 0, b"", 0, b"", 0, False) and None,
    lock=lambda d: torch._C._cuda_lock_mutex() and None,
    peer=lambda d: torch._C._cuda_canDeviceAccessPeer(0, 9) and None,
    alloc=lambda d: torch._C._cuda_cudaCachingAllocator_raw_alloc(1 << 40, 0) and None,
    delete=lambda d: torch._C._cuda_cudaCachingAllocator_raw_delete(123) and None,
    backend_generator=lambda d: torch._C.Generator(torch.device(d)) and None,
    construct_from_storage=lambda d: torch._C._construct_storage_from_data_pointer(0, torch.device(d), 8) and None,
    storage_data=lambda d: torch._C._construct_CUDA_Tensor_From_Storage_And_Metadata({}, ones(d).untyped_storage()),
    tensors_data_ptr=lambda d: (torch._C._tensors_data_ptrs_at_indices_equal([ones(d)], [0], [0]), None)[1],
    cow=lambda d: torch._lazy_clone(ones(d)),
    set_conj=lambda d: torch._C._conj and torch._conj(torch.ones(1, dtype=torch.complex64, device=d)).shape,
    functional=lambda d: torch._from_functional_tensor(torch._to_functional_tensor(ones(d))),
    version=lambda d: ones(d)._version,
    unsafe_version=lambda d: torch._C._autograd._unsafe_set_version_counter([ones(d)], [3]) and None,
    accelerator_graph=lambda d: torch.accelerator.Graph() and None,
)
