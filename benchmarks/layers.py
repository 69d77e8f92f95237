"""Recurrent layers, attention, norms, convolutions, optimizers, the driver: an H200's times, and modelled times.

    python benchmarks/layers.py                     the ratio of modelled to measured device time, without a GPU
    python benchmarks/layers.py --measure FILE      measure this machine's GPU, and write a file like data/h200.json

`busy_us` is the time of the kernels alone, by the profiler; `device_us` includes gaps in which the GPU waits for the
host; `host_us` is the host's time for a call. Measuring needs a CUDA GPU that nothing else uses.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from gpututor.devices.virtual.cost import kernel, recurrent
from gpututor.devices.virtual.cost.calibration import calibrated
from gpututor.hardware.gpus import gpu_spec

DATA = Path(__file__).parent / "data" / "h200.json"
MODES = {"RNN": 1, "LSTM": recurrent.LSTM, "GRU": recurrent.GRU}
SIZES = (
    (32, 16, 64, 64, 1, 1, "float32"), (100, 64, 128, 256, 1, 1, "float32"), (100, 64, 128, 256, 2, 1, "float32"),
    (100, 64, 128, 256, 1, 2, "float32"), (50, 32, 512, 512, 1, 1, "float32"), (50, 128, 1024, 1024, 1, 1, "float32"),
    (50, 128, 1024, 1024, 2, 1, "float16"), (200, 32, 256, 256, 1, 1, "float16"), (1, 32, 256, 256, 1, 1, "float32"),
    (512, 10, 128, 256, 6, 1, "float32"),
)  # fmt: skip
"""Steps, sequences, inputs, hidden units, layers, directions, dtype."""
BACKENDS = {"flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION"}
HEADS = (
    (8, 16, 1024, 64, "float16", False), (8, 16, 1024, 64, "float16", True), (2, 16, 4096, 128, "bfloat16", True),
    (32, 8, 256, 64, "bfloat16", False), (4, 16, 1024, 64, "float32", False), (1, 8, 64, 64, "float16", False),
)  # fmt: skip
"""Batch, heads, length, features, dtype, causal."""
NORMS: dict[str, Callable[..., Any]] = {
    "layer_norm": lambda x, weight, bias: functional.layer_norm(x, weight.shape, weight, bias),
    "rms_norm": lambda x, weight: functional.rms_norm(x, weight.shape, weight),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
}
ROWS = (
    (256, 64), (8192, 64), (65536, 64), (8192, 256), (65536, 256), (2048, 768), (8192, 768), (32768, 768),
    (8192, 1024), (32768, 1024), (4096, 2048), (8192, 4096), (2048, 8192), (512, 32768),
)  # fmt: skip
"""Rows and features of norms and softmax."""
FILTERS = (
    (32, 3, 224, 64, 7, 2), (32, 64, 56, 64, 3, 1), (32, 64, 56, 256, 1, 1), (32, 128, 28, 128, 3, 1),
    (32, 256, 14, 256, 3, 1), (32, 512, 7, 512, 3, 1), (64, 3, 32, 64, 3, 1), (64, 64, 32, 64, 3, 1),
    (8, 64, 128, 64, 3, 1),
)  # fmt: skip
"""Images, channels, side, output channels, side of the filter, stride of convolutions."""
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, 0.01),
    "SGD momentum": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
    "Adam": torch.optim.Adam,
    "Adam single": lambda p: torch.optim.Adam(p, foreach=False),
    "AdamW fused": lambda p: torch.optim.AdamW(p, fused=True),
}
Row = list[Any]


def recurrent_ratios(data: dict[str, Any], model: str = "H200") -> Iterator[tuple[str, float, float]]:
    """Yield (case, modelled over measured time of the kernels, the same ratio for the device with launch overhead)."""
    gpu, launch_us = calibrated(gpu_spec(model)), data["launch_us"]
    for name, steps, batch, inputs, hidden, count, directions, dtype, way, busy, device, _, _ in data["recurrent"]:
        sizes = (MODES[name], steps, steps * batch, inputs, hidden, 0, count, directions, dtype)
        layers, backward = recurrent.RecurrentLayers(*sizes), way == "backward"
        seconds = recurrent.seconds(gpu, layers, True, backward)
        host_us = sum(recurrent.host_launches(gpu, layers, backward)) * launch_us
        case = f"{name} {steps} × {batch} × {inputs}, {count} × {directions} of {hidden}, {dtype}, {way}"
        yield case, seconds * 1e6 / busy, max(seconds * 1e6, host_us) / device


def attention_ratios(data: dict[str, Any], model: str = "H200") -> Iterator[tuple[str, float]]:
    """Yield (case, modelled over measured time of the kernels)."""
    for backend, *shape, dtype, causal, way, busy, _, _ in data["attention"]:
        heads, ending = (tuple(shape), dtype), "_backward" if way == "backward" else ""
        inputs, outputs = ([heads] * 5, [heads] * 3) if ending else ([heads] * 3, [heads])
        name = f"aten::_scaled_dot_product_{backend}_attention{ending}"
        price = kernel.price(gpu_spec(model), name, inputs, outputs, causal=causal)
        yield f"{backend} {shape} {dtype}{' causal' * causal}, {way}", price.seconds * 1e6 / busy


def norm_ratios(data: dict[str, Any], model: str = "H200") -> Iterator[tuple[str, float]]:
    """Yield (case, modelled over measured time of the kernels) of norms and softmax."""
    for kind, rows, features, dtype, way, busy, _, _ in data["norms"]:
        x, weights = ((rows, features), dtype), [((features,), dtype)] * {"layer_norm": 2, "rms_norm": 1}.get(kind, 0)
        sums = [((rows, 1), "float32")] * len(weights)
        name = {"layer_norm": "native_layer_norm", "rms_norm": "_fused_rms_norm"}.get(kind, f"_{kind}")
        if way == "backward":
            name += "_backward" if weights else "_backward_data"
            inputs, outputs = [x, x, *sums, *weights], [x, *weights]
        else:
            inputs, outputs = [x, *weights], [x, *sums]
        seconds = kernel.price(gpu_spec(model), f"aten::{name}", inputs, outputs).seconds
        yield f"{kind} {rows} × {features} {dtype}, {way}", seconds * 1e6 / busy


def convolution_ratios(data: dict[str, Any], model: str = "H200") -> Iterator[tuple[str, float]]:
    """Yield (case, modelled over measured time of the kernels) of convolutions."""
    for images, inner, side, outer, window, stride, dtype, last, way, busy, _, _ in data["convolutions"]:
        real = "float32" if dtype == "tf32" else dtype
        made = (side + 2 * (window // 2) - window) // stride + 1
        image, weight = ((images, inner, side, side), real), ((outer, inner, window, window), real)
        output = ((images, outer, made, made), real)
        flops = 2 * images * outer * made**2 * inner * window**2
        options: Any = {"convolution_tf32": dtype == "tf32", "layout": "channels_last" if last else ""}
        if way == "backward":
            parts = ("aten::convolution_backward", [output, image, weight], [image, weight], 2 * flops)
        else:
            parts = ("aten::convolution", [image, weight], [output], flops)
        layout = "channels last" if last else "channels first"
        case = f"convolution {images} × {inner} × {side}², {outer} of {window}², {dtype}, {layout}, {way}"
        yield case, kernel.price(gpu_spec(model), *parts, **options).seconds * 1e6 / busy


def read() -> dict[str, Any]:
    result: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return result


def _device_us(call: Callable[[], object], repeats: int = 10) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e3 / repeats


def _host_us(call: Callable[[], object], repeats: int = 50) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    spent = time.perf_counter() - start
    torch.cuda.synchronize()
    return spent / repeats * 1e6


def _kernels(call: Callable[[], object]) -> tuple[int, float]:
    """Return the number of kernels and the microseconds of all of them."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    # The device's events include a range for the optimizer's step.
    on_device = [event for event in seen.events() or [] if event.device_type.name == "CUDA" and "#" not in event.name]
    return len(on_device), sum(event.device_time for event in on_device)


def _measured(call: Callable[[], object]) -> Row:
    """Return [busy_us, device_us, host_us, kernels], each the minimum of three measurements."""
    for _ in range(3):
        call()
    device, host = (min(time_of(call) for _ in range(3)) for time_of in (_device_us, _host_us))
    count, busy = _kernels(call)
    return [round(busy, 1), round(device, 1), round(host, 1), count]


def _gradients(out: Any, inputs: list[Any]) -> Callable[[], object]:
    ones = torch.ones_like(out)
    return lambda: torch.autograd.grad(out, inputs, ones, retain_graph=True)


def measure_recurrent() -> Iterator[Row]:
    for name in MODES:
        for sizes in SIZES:
            steps, batch, inputs, hidden, count, directions, dtype = sizes
            options = {"device": "cuda", "dtype": getattr(torch, dtype)}
            layers = getattr(nn, name)(inputs, hidden, count, bidirectional=directions == 2, **options)
            x = torch.randn(steps, batch, inputs, **options)
            yield [name, *sizes, "forward", *_measured(lambda layers=layers, x=x: layers(x))]  # type: ignore[misc]
            yield [name, *sizes, "backward", *_measured(_gradients(layers(x)[0], list(layers.parameters())))]


def measure_attention() -> Iterator[Row]:
    attend: Any = functional.scaled_dot_product_attention
    for backend, name in BACKENDS.items():
        for *shape, dtype, causal in HEADS:
            heads = [torch.randn(shape, dtype=getattr(torch, dtype), device="cuda", requires_grad=True) for _ in "qkv"]
            case = [backend, *shape, dtype, causal]
            with sdpa_kernel(getattr(SDPBackend, name)):
                try:
                    out = attend(*heads, is_causal=causal)
                except RuntimeError:
                    continue  # This backend lacks the dtype.
                forward = _measured(lambda heads=heads, causal=causal: attend(*heads, is_causal=causal))  # type: ignore[misc]
            backward = _measured(_gradients(out, heads))
            for way, (busy, device, _, count) in (("forward", forward), ("backward", backward)):
                yield [*case, way, busy, device, count]


def measure_norms() -> Iterator[Row]:
    for dtype in ("float32", "float16"):
        for rows, features in ROWS:
            options: dict[str, Any] = {"device": "cuda", "dtype": getattr(torch, dtype), "requires_grad": True}
            x, weight, bias = torch.randn(rows, features, **options), *torch.ones(2, features, **options).unbind()
            for kind, norm in NORMS.items():
                inputs = [x, weight, bias][: {"layer_norm": 3, "rms_norm": 2}.get(kind, 1)]
                case = [kind, rows, features, dtype]
                forward = _measured(lambda norm=norm, inputs=inputs: norm(*inputs))  # type: ignore[misc]
                backward = _measured(_gradients(norm(*inputs), inputs))
                for way, (busy, device, _, count) in (("forward", forward), ("backward", backward)):
                    yield [*case, way, busy, device, count]


def measure_convolutions() -> Iterator[Row]:
    for dtype in ("tf32", "float32", "float16"):
        torch.backends.cudnn.allow_tf32 = dtype == "tf32"
        kind = torch.float16 if dtype == "float16" else torch.float32
        for images, inner, side, outer, window, stride in FILTERS:
            for last in (False, True):
                layout = torch.channels_last if last else torch.contiguous_format
                image = torch.randn(images, inner, side, side, device="cuda", dtype=kind).to(memory_format=layout)
                weight = torch.randn(outer, inner, window, window, device="cuda", dtype=kind).to(memory_format=layout)
                inputs = [image.requires_grad_(), weight.requires_grad_()]
                convolve = partial(functional.conv2d, *inputs, stride=stride, padding=window // 2)
                ways = {"forward": _measured(convolve), "backward": _measured(_gradients(convolve(), inputs))}
                for way, (busy, device, _, count) in ways.items():
                    yield [images, inner, side, outer, window, stride, dtype, last, way, busy, device, count]
    torch.backends.cudnn.allow_tf32 = True


def measure_optimizers() -> dict[str, Row]:
    """Return [busy_us, device_us, host_us, kernels] of a step of six parameters."""
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
    model(torch.randn(64, 512, device="cuda")).sum().backward()
    return {name: _measured(make(model.parameters()).step) for name, make in OPTIMIZERS.items()}


def _driver_us(mebibytes: int) -> list[float]:
    """Return the microseconds to allocate a segment and to free it, medians of five."""
    times = []
    for _ in range(5):
        torch.cuda.empty_cache()
        moments = [time.perf_counter()]
        block = torch.empty(mebibytes << 20, dtype=torch.uint8, device="cuda")
        moments.append(time.perf_counter())
        del block
        torch.cuda.empty_cache()
        moments.append(time.perf_counter())
        times.append((moments[1] - moments[0], moments[2] - moments[1]))
    return [round(statistics.median(column) * 1e6, 1) for column in zip(*times, strict=True)]


def measure() -> dict[str, Any]:
    """Return the content of the data file for this machine's GPU."""
    x = torch.ones(1000, device="cuda")
    return {
        "source": f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}",
        "launch_us": round(_host_us(lambda: x.add_(1), 200), 1),
        "recurrent": list(measure_recurrent()),
        "attention": list(measure_attention()),
        "norms": list(measure_norms()),
        "convolutions": list(measure_convolutions()),
        "optimizers": measure_optimizers(),
        "driver": {str(size): _driver_us(size) for size in (200, 2000, 20000)},
    }


def main() -> None:
    """Print the table, or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", metavar="FILE", type=Path)
    file = parser.parse_args().measure
    if file is not None:
        if not torch.cuda.is_available():
            print("This machine has no CUDA GPU: there is nothing to measure.", file=sys.stderr)
            sys.exit(2)
        file.write_text(json.dumps(measure()), encoding="utf-8")
        return
    data = read()
    print("modelled over measured: time of the kernels; of the device, with the launch overhead of the measured host")
    for case, busy, device in recurrent_ratios(data):
        print(f"{busy:5.2f} {device:5.2f}  {case}")
    for case, busy in (*attention_ratios(data), *norm_ratios(data), *convolution_ratios(data)):
        print(f"{busy:5.2f}        {case}")


if __name__ == "__main__":
    main()
