"""Operators and programs without values give the same shapes, dtypes, kernels, times and memory."""

from __future__ import annotations

import contextlib
import copy
import gc
import warnings
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, dropout, one_hot
from torch.torch_version import TorchVersion
from torch.utils.checkpoint import checkpoint

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import NoValues, torch_private, virtual_gpu
from gpututor.devices.virtual.operator_facts import tables
from tests.support import operator_samples as samples
from tests.support.layer_samples import LAYERS
from tests.support.parameters import mostly_long
from tests.support.virtual_gpus import loss_of

HERE = str(Path(__file__).parent)


def seen_of(program: Callable[[], object], *, values: bool, **machine: Any) -> dict[str, Any]:
    """Run `program`; return the events of its trace, and the memory figures of each GPU."""
    # What PyTorch imports late keeps the tensors of its caller until the garbage is collected.
    torch_private.load_shape_rules()
    recorder = Recorder([HERE])
    gc.collect()
    gc.disable()  # what is freed when is the program's affair alone
    try:
        torch.manual_seed(0)
        with virtual_gpu(values=values, recorder=recorder, **machine) as box:
            out = program()
            del out
            recorder.complete()
            figures = [gpu.memory.figures() for gpu in box.gpus]
            count = len(box.gpus)
            peaks = [
                (torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device))
                for device in range(count)
            ]
    finally:
        gc.enable()
    return {"events": list(recorder.trace.since(0)), "peaks": peaks, "figures": figures}


def _language_model() -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True, norm_first=True)
    model = nn.Sequential(nn.Embedding(50, 32), nn.TransformerEncoder(layer, 2), nn.Linear(32, 50)).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, total_steps=4)
    tokens = torch.randint(50, (4, 17)).pin_memory().to("cuda", non_blocking=True)
    for _ in range(3):
        optimiser.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimiser.step()
        rate.step()
    torch.cuda.synchronize()


def _convolutions() -> None:
    model = nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(
            nn.Conv2d(8, 8, 3, padding=1, groups=8),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(),
            nn.Linear(8, 5),
        ),
    )
    model = model.cuda().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True)
    scaler = torch.amp.GradScaler("cuda")
    images = torch.rand(4, 3, 16, 16).to("cuda", memory_format=torch.channels_last)
    for _ in range(3):
        with torch.autocast("cuda", torch.float16):
            loss = cross_entropy(model(images), torch.zeros(4, dtype=torch.int64, device="cuda"))
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimiser)
        scaler.update()
        optimiser.zero_grad()


def _checkpointed() -> None:
    x = torch.ones(4, 8, device="cuda", requires_grad=True)
    blocks = [nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.GELU()).cuda() for _ in range(3)]
    y = x
    for block in blocks:
        y = checkpoint(block, y, use_reentrant=False)
    y.sum().backward()


def _copies_of_modules() -> None:
    with torch.device("cuda"):
        model = nn.Linear(8, 8)
    average = copy.deepcopy(model)
    with torch.no_grad():
        for mine, other in zip(average.parameters(), model.parameters(), strict=True):
            mine.lerp_(other, 0.1)
    with torch.device("meta"):
        empty = nn.Linear(8, 8)
    empty.to_empty(device="cuda").load_state_dict(average.state_dict())
    average.load_state_dict({name: value.cpu() for name, value in nn.Linear(8, 8).state_dict().items()})


def _masks() -> None:
    x = torch.randn(4, 8, device="cuda")
    x[x > 0] = 0.0
    y = torch.where(x > 0, x, torch.tensor(1.0)).masked_fill(x < 0, -1.0)
    y[torch.tensor([0, 1]), 2] += 1
    y[:, 1:3].copy_(torch.ones(4, 2))
    torch.linspace(x.sum(), x.max(), 5, device="cuda")
    one_hot(torch.ones(3, dtype=torch.int64, device="cuda"), 5)
    dropout(y.sort(dim=1).values.topk(2).values, 0.5)
    y.cumsum(0).std().sqrt_()


def _streams() -> None:
    side = torch.cuda.Stream()
    x = torch.ones(1000, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
        y.record_stream(torch.cuda.current_stream())
    began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    began.record()
    torch.cuda.current_stream().wait_stream(side)
    (x + y).sum()
    ended.record()
    ended.synchronize()
    assert began.elapsed_time(ended) > 0


def _graph() -> None:
    x = torch.ones(8, 8, device="cuda")
    weight = torch.ones(8, 8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        weight.add_(torch.relu(x @ weight), alpha=0.1)
    for _ in range(3):
        x.copy_(torch.zeros(8, 8))
        graph.replay()


def _compiled() -> None:
    torch.compiler.reset()
    model = torch.compile(nn.Linear(4, 4).cuda())
    model(torch.ones(2, 4, device="cuda")).sum().backward()


def _packed() -> None:
    packed = nn.utils.rnn.pack_padded_sequence(torch.ones(3, 4, 2).cuda(), torch.tensor([4, 2, 1]), batch_first=True)
    out, _ = nn.LSTM(2, 3, batch_first=True).cuda()(packed)
    nn.utils.rnn.pad_packed_sequence(out)[0].sum().backward()


def _connectionist() -> None:
    scores = torch.randn(5, 2, 4, device="cuda", requires_grad=True)
    targets = torch.ones(2, 2, dtype=torch.int64, device="cuda")
    nn.CTCLoss()(scores.log_softmax(2), targets, torch.tensor([5, 4]), torch.tensor([2, 1])).backward()


PROGRAMS: dict[str, Callable[[], None]] = {
    "a language model with fused AdamW and bf16": _language_model,
    "convolutions with channels last and GradScaler": _convolutions,
    "checkpointing": _checkpointed,
    "deepcopy, to_empty and load_state_dict": _copies_of_modules,
    "masks and indices": _masks,
    "streams and events": _streams,
    "a graph": _graph,
    "torch.compile": _compiled,
    "packed sequences": _packed,
    "CTC with lengths on the host": _connectionist,
}


_EVERY = 16
_PARTS = 4
_NOT_WITH_VALUES = (
    *("jiterator", "sparse.mm.reduce", "sparse.sampled_addmm"),
    *("_flash_attention_forward", "_efficient_attention_forward"),
)


def _listed() -> dict[str, str]:
    return {name: reason for reason, names in tables()["needs_values"].items() for name in names}


def _operators() -> list[Any]:
    result = samples.operators(torch.float32)
    return [op for op in result if not any(word in samples.name_of(op) for word in _NOT_WITH_VALUES)]


def _seen(op: Any, sample: Any, values: bool) -> Any:
    arguments = (sample.input, list(sample.args), dict(sample.kwargs))
    with virtual_gpu(values=values):
        outputs, gradients = samples.results(op, samples.on_gpu(op, arguments))
        described = [
            None if tensor is None else (tensor.shape, tensor.dtype, tensor.device.type)
            for tensor in outputs + gradients
        ]
        return described, torch.cuda.max_memory_allocated()


def _differences(operators: Iterable[Any], samples_each: int) -> dict[str, str]:
    """Return the differences without values, by the operator's name."""
    results = {}
    for op in operators:
        torch.manual_seed(0)
        differentiable = op.supports_autograd and torch.float32 in op.backward_dtypesIfCUDA
        for sample in islice(op.sample_inputs("cpu", torch.float32, requires_grad=differentiable), samples_each):
            expected = _seen(op, sample, values=True)
            try:
                got = _seen(op, sample, values=False)
            except (NoValues, NotImplementedError) as error:
                results[samples.name_of(op)] = str(error)
                break
            if got != expected:
                results[samples.name_of(op)] = f"other: {got} and not {expected}"
                break
    return results


def _check(operators: list[Any], samples_each: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = _differences(operators, samples_each)
    listed = _listed()
    assert {name: said for name, said in result.items() if name not in listed} == {}
    for name, said in result.items():
        assert "needs values" in said or "without values" in said, name


def test_sampled_operators_have_the_same_shapes_and_memory() -> None:
    operators = _operators()[::_EVERY]
    assert len(operators) > 30
    _check(operators, 1)


@pytest.mark.long
@pytest.mark.parametrize("part", range(_PARTS))
def test_every_operator_has_the_same_shapes_and_memory(part: int) -> None:
    _check(_operators()[part::_PARTS], 3)


def test_the_operators_that_need_values_are_few_and_have_a_reason() -> None:
    listed, names = _listed(), {samples.name_of(op) for op in _operators()}
    assert set(listed) <= names
    assert len(listed) / len(names) <= 0.03
    assert all(listed.values())


def test_each_operator_that_is_listed_needs_values() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = _differences([op for op in _operators() if samples.name_of(op) in _listed()], 40)
    without_values = {"combinations"} if TorchVersion(torch.__version__) >= "2.14" else set()
    assert set(result) == set(_listed()) - without_values


_BY_VALUES = {"CTCLoss", "AdaptiveLogSoftmaxWithLoss", "GaussianNLLLoss"}
"""They ask tensors for values: lengths, which class is in which part, and whether a variance is negative."""
_COMPARED = sorted(set(LAYERS) - _BY_VALUES)


def _train_layer(kind: str, *, train: bool = True, dtype: torch.dtype | None = None, autocast: Any = None) -> None:
    """Run a layer twice, with optimizer steps if it has parameters; in evaluation mode unless `train`."""
    layer, values = LAYERS[kind]()
    layer.cuda().train(train)
    inputs = [tensor.cuda().requires_grad_(tensor.is_floating_point()) for tensor in values]
    if dtype is not None:
        layer.to(dtype)
        inputs = [
            tensor.detach().to(dtype).requires_grad_() if tensor.is_floating_point() else tensor for tensor in inputs
        ]
    parameters = [*layer.parameters()]
    optimiser = torch.optim.AdamW(parameters) if parameters else None
    for _ in range(2):
        with torch.autocast("cuda", autocast) if autocast is not None else contextlib.nullcontext():
            loss = loss_of(layer(*inputs))
        if not (train and loss.requires_grad):
            continue
        loss.backward()
        if optimiser is not None:
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            optimiser.zero_grad()


def _compare(program: Callable[[], object], **machine: Any) -> list[Any]:
    with_values = seen_of(program, values=True, **machine)
    without = seen_of(program, values=False, **machine)
    assert without["events"] == with_values["events"]
    assert without == with_values
    events: list[Any] = without["events"]
    return events


@pytest.mark.parametrize(
    "training", [True, pytest.param(False, marks=pytest.mark.long)], ids=["training", "evaluating"]
)
@pytest.mark.parametrize("kind", mostly_long(_COMPARED, _COMPARED[::5]))
def test_a_layer_has_the_same_trace_and_memory_as_with_values(kind: str, training: bool) -> None:
    events = _compare(lambda: _train_layer(kind, train=training))
    assert any(event.kind == "kernel" and event.device == "cuda:0" for event in events)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "kind", ["Linear", "Conv2d same", "BatchNorm2d", "LayerNorm", "GroupNorm", "TransformerEncoder"]
)
def test_a_layer_in_half_precision_has_the_same_trace(kind: str, dtype: torch.dtype) -> None:
    _compare(lambda: _train_layer(kind, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.long)], ids=str)
@pytest.mark.parametrize(
    "kind",
    mostly_long(
        ["Linear", "Conv2d same", "BatchNorm2d", "LSTM", "GroupNorm", "TransformerEncoder"], ["Linear", "LSTM"]
    ),
)
def test_a_layer_under_autocast_has_the_same_trace(kind: str, dtype: torch.dtype) -> None:
    _compare(lambda: _train_layer(kind, autocast=dtype))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_the_same_trace_and_memory_as_with_values(name: str) -> None:
    assert _compare(PROGRAMS[name])


def test_replicas_on_two_gpus_have_the_same_trace() -> None:
    def replicas() -> None:
        model = nn.DataParallel(nn.Linear(4, 4).cuda())
        model(torch.ones(6, 4, device="cuda")).sum().backward()

    seen = [sorted(map(repr, seen_of(replicas, values=values, count=2)["peaks"])) for values in (True, False)]
    assert seen[0] == seen[1]


def test_out_of_memory_occurs_at_the_same_operation() -> None:
    def too_large() -> None:
        kept = [torch.ones(1 << 19, device="cuda") for _ in range(20)]
        with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 32\.00 MiB"):
            torch.cat(kept[4:])
        with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 64\.00 MiB"):
            kept[0].expand(32, -1) + 1

    _compare(too_large, memory_bytes=64 << 20)
