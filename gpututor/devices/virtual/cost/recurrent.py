"""Costs of recurrent layers, as cuDNN runs them.

The algorithm is chosen as in `get_algo` of aten/src/ATen/native/cudnn/RNN.cpp. A persistent kernel keeps the weights on
the chip and computes all steps. The standard algorithm first multiplies the inputs of all steps at once. Then it
launches a product and an elementwise kernel for each step, and waits for each step's latency.

Cycles and kernels were measured on an H200 (benchmarks/data/h200.json).
"""

from __future__ import annotations

from dataclasses import dataclass

from gpututor.devices.virtual.cost.calibration import AchievableRates
from gpututor.devices.virtual.cost.matrices import STEP_CYCLES, product
from gpututor.devices.virtual.cost.memory_traffic import Tensor, element_bytes

LSTM, GRU = 2, 3
"""cuDNN's numbers of the modes; 0 and 1 are the simple layers with ReLU and tanh."""
_GATES = {LSTM: 4, GRU: 3}
_SAVED = {LSTM: 5, GRU: 6}
"""Values per step and hidden unit that training saves; 1 in simple layers."""
_HALVES = ("float16", "bfloat16")
_BACKWARD_INNER = 2.5
"""Cycles of a gated layer's backward step along the inner dimension, relative to a forward step."""
_PERSISTENT_CYCLES, _PERSISTENT_UNIT_CYCLES = 200.0, {True: 20.0, False: 13.0}
"""Cycles of a persistent kernel's step, and cycles for each hidden unit, by `is_gated`."""
_PERSISTENT_BACKWARD = 1.4
_STEP_KERNELS = {False: 2, True: 3}
"""Kernels that the standard algorithm launches for a step, forward and backward: backward also clears memory."""
_OTHER_KERNELS = {False: 4, True: 10}
"""Kernels of a call outside its steps, for each layer and direction, forward and backward."""
_CALL_LAUNCHES = {False: 8.0, True: 32.0}
"""Host time of a call before its first kernel, in launches of an elementwise operator."""
_KERNEL_LAUNCHES = 0.8
"""Host time of each further kernel, in the same unit: C++ launches it without Python."""


@dataclass(frozen=True, slots=True)
class RecurrentLayers:
    """A call of `_cudnn_rnn` by its sizes."""

    mode: int
    steps: int
    rows: int
    """Sequences times steps, without padding."""
    inputs: int
    hidden: int
    projected: int
    """0 without a projection."""
    layers: int
    directions: int
    dtype: str
    packed: bool = False

    @property
    def batch(self) -> int:
        """Mean number of sequences in a step."""
        return max(round(self.rows / max(self.steps, 1)), 1)

    @property
    def gates(self) -> int:
        return _GATES.get(self.mode, 1)

    @property
    def is_gated(self) -> bool:
        return self.mode in _GATES

    @property
    def outputs(self) -> int:
        """Features that one direction returns for each step."""
        return self.projected or self.hidden

    def inputs_of(self, layer: int) -> int:
        return self.inputs if layer == 0 else self.outputs * self.directions

    @property
    def flops(self) -> float:
        """FLOPs of the forward pass."""
        per_row = 0.0
        for layer in range(self.layers):
            per_row += self.gates * self.hidden * (self.inputs_of(layer) + self.outputs) + self.hidden * self.projected
        return 2.0 * self.directions * self.rows * per_row

    @property
    def reserve_bytes(self) -> int:
        """Bytes that training saves for the backward pass: gates, states, and the outputs of inner layers."""
        saved = self.layers * _SAVED.get(self.mode, 1) + self.layers - 1
        return self.rows * self.directions * self.hidden * saved * element_bytes(self.dtype)

    def is_persistent(self, capability: tuple[int, int], multiprocessors: int) -> bool:
        """Return True if PyTorch asks cuDNN for a persistent kernel."""
        if self.projected:
            return False
        if self.dtype in _HALVES and not self.packed and self._suits_static_kernel(capability, multiprocessors):
            return True
        if self.packed or self.dtype == "float64" or capability < (7, 0):
            return False
        return self.hidden <= (192 if self.is_gated else 384)

    def _suits_static_kernel(self, capability: tuple[int, int], multiprocessors: int) -> bool:
        aligned = self.hidden % 128 == 0 and self.inputs % 128 == 0 and self.hidden <= 1024
        if self.layers > 1 or self.directions > 1 or not aligned or capability == (7, 5):
            return False
        batch, steps = self.batch, self.steps
        if capability[0] == 7:
            longest = 128 if steps >= 40 else 96 if steps >= 20 else 32 if steps >= 10 else 0
            return (batch > 8 or (batch % 16 == 0 and batch not in (80, 112))) and batch <= longest
        if capability[0] < 8 or capability[1] == 6 or multiprocessors < 98 or self.mode == GRU:
            return False
        return batch % 8 == 0 and batch <= 128 and (self.mode == LSTM or batch < 96 or self.hidden < 896)


def seconds(gpu: AchievableRates, layers: RecurrentLayers, tf32: bool, backward: bool) -> float:
    """Return the seconds of all kernels of a call, one after another."""
    total = 0.0
    for layer in range(layers.layers):
        inputs = layers.inputs_of(layer)
        total += layers.directions * (
            _products_s(gpu, layers, inputs, tf32, backward) + layers.steps * _step_s(gpu, layers, tf32, backward)
        )
    return total


def filled(gpu: AchievableRates, layers: RecurrentLayers) -> float:
    return gpu.filled(layers.batch * layers.gates * layers.hidden)


def _products_s(gpu: AchievableRates, layers: RecurrentLayers, inputs: int, tf32: bool, backward: bool) -> float:
    """Return the seconds of a layer's products over all steps; backward, of the inputs' and weights' gradients."""
    gates, rows = layers.gates * layers.hidden, layers.rows
    sizes = [(rows, gates, inputs)]
    if backward:
        sizes = [(rows, inputs, gates), (gates, inputs, rows), (gates, layers.outputs, rows)]
    floor_s = gpu.factors["memory.floor_us"] / 1e6
    traffic_s = gpu.moved_s(rows * gates * element_bytes(layers.dtype)) if backward else 0.0
    products_s = sum(_product_s(gpu, *size, layers.dtype, tf32) for size in sizes)
    return products_s + traffic_s + _OTHER_KERNELS[backward] * floor_s


def _step_s(gpu: AchievableRates, layers: RecurrentLayers, tf32: bool, backward: bool) -> float:
    if layers.is_persistent(gpu.spec.capability, gpu.multiprocessors):
        cycles = _PERSISTENT_CYCLES + _PERSISTENT_UNIT_CYCLES[layers.is_gated] * layers.hidden
        return cycles * (_PERSISTENT_BACKWARD if backward else 1.0) / gpu.clock_hz
    gates, batch = layers.gates * layers.hidden, layers.batch
    size = (batch, layers.outputs, gates) if backward else (batch, gates, layers.outputs)
    inner = layers.outputs * (_BACKWARD_INNER if backward and layers.is_gated else 1.0)
    latency_s = inner * STEP_CYCLES[element_bytes(layers.dtype)] / gpu.clock_hz
    elementwise_s = gpu.moved_s(3 * batch * gates * element_bytes(layers.dtype))
    floors_s = (2.5 if backward else 2.0) * gpu.factors["memory.floor_us"] / 1e6
    return max(latency_s, _product_s(gpu, *size, layers.dtype, tf32)) + elementwise_s + floors_s


def _product_s(gpu: AchievableRates, rows: int, columns: int, inner: int, dtype: str, tf32: bool) -> float:
    left, right, out = ((rows, inner), dtype), ((inner, columns), dtype), ((rows, columns), dtype)
    factors: list[Tensor] = [left, right]
    return product(gpu, factors, [out], tf32)[0]


def host_launches(gpu: AchievableRates, layers: RecurrentLayers, backward: bool) -> tuple[float, float]:
    """Return a call's cost for the host before its first kernel and after it, in launches (`GpuSpec.launch_s`)."""
    kernels = _OTHER_KERNELS[backward]
    if not layers.is_persistent(gpu.spec.capability, gpu.multiprocessors):
        kernels += layers.steps * _STEP_KERNELS[backward]
    return _CALL_LAUNCHES[backward], layers.layers * layers.directions * kernels * _KERNEL_LAUNCHES
