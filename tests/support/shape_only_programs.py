"""Programs that need no values, and their traces on a virtual machine with values and without."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, dropout, one_hot
from torch.utils.checkpoint import checkpoint

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import torch_private, virtual_gpu

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
