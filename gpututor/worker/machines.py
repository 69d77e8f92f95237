"""Entering the machine that a run is to see: the virtual GPU, or a real device under observation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from gpututor.devices.observer import observe
from gpututor.devices.recorder import Recorder
from gpututor.wire.messages import MachineSpec
from gpututor.wire.packer import Seen, plain_view
from gpututor.worker.gauges import Gauge, RealGauge, VirtualGauge

if TYPE_CHECKING:
    from gpututor.devices.virtual import VirtualMachine


@dataclass(frozen=True)
class EnteredMachine:
    """What a run needs while it is inside a machine."""

    recorder: Recorder
    view: Seen
    """How tensors that leave are looked at."""
    gauge: Gauge
    virtual: VirtualMachine | None = None


@contextlib.contextmanager
def entered(spec: MachineSpec, learner_file: str, *, observed: bool = True) -> Iterator[EnteredMachine]:
    """Be on the machine that `spec` describes; what its devices do is recorded by lines of `learner_file`.

    A real device is left alone where it is not `observed`: watching it costs time.
    """
    recorder = Recorder([learner_file])
    if spec.kind == "virtual":
        from gpututor.devices import virtual

        memory_bytes = None if spec.memory_mib is None else spec.memory_mib << 20
        with virtual.virtual_gpu(
            spec.gpus,
            spec.gpu,
            memory_bytes=memory_bytes,
            backends=spec.backends,
            obey_environment=False,
            recorder=recorder,
        ) as machine:
            yield EnteredMachine(recorder, _virtual_view(), VirtualGauge(machine), machine)
        return
    if spec.kind in ("cuda", "xpu"):  # there is only one mps
        torch.accelerator.set_device_index(spec.index)
    with observe(recorder) if observed else contextlib.nullcontext():
        yield EnteredMachine(recorder, plain_view(), RealGauge(spec.kind))


def _virtual_view() -> Seen:
    from gpututor.devices import virtual
    from gpututor.devices.virtual.tensors.tensor import VirtualTensor

    plain = plain_view()

    def host(tensor: torch.Tensor) -> torch.Tensor:
        return virtual.host_tensor(tensor) if virtual.is_virtual(tensor) else plain.host(tensor)

    def storage(tensor: torch.Tensor) -> int:
        return virtual.storage_key(tensor) if virtual.is_virtual(tensor) else plain.storage(tensor)

    def pinned(tensor: torch.Tensor) -> bool:
        return False if virtual.is_virtual(tensor) else virtual.pinned(tensor)

    return Seen(host, storage, pinned, (*plain.exact_types, VirtualTensor))
