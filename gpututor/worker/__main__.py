"""Entry point of the worker: `python -I -m gpututor.worker SOCKET STACK SCRATCH ISOLATION`. Serves one submission.

The worker has no seed, no reference, no tolerance and no verdict. The judge validates everything that it sends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import io
import os
import signal
import socket
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from gpututor.processes import adopt_orphans, die_with_parent
from gpututor.protocol.frames import write_frame
from gpututor.worker.seccomp import block_escaping_syscalls, block_hidden_memory, leave_session_keyring

WARMED = (
    "torch",
    "torch._dynamo",  # 1.2 s: torch's modes and optimizers import it at their first use
    "gpututor.devices.virtual.session",
    "gpututor.worker.service",
)


def main() -> int:
    die_with_parent()
    # Orphans of the submission stay below the worker, where the judge's resource monitor sees them.
    adopt_orphans()
    leave_session_keyring()
    socket_fd, stack, scratch, isolation = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    warm_up()
    gc.freeze()  # otherwise the first call begins with a collection of all of torch's objects: up to a second
    from gpututor.devices.probe import describe_devices
    from gpututor.worker.machine import enter_idle_machine, leave_idle_machine

    devices = describe_devices()
    enter_idle_machine()
    try:
        return begin(socket_fd, stack, scratch, devices, own_namespace=isolation == "bubblewrap")
    finally:
        leave_idle_machine()


def warm_up() -> None:
    """Import what a run needs, read its tables, and describe usual operators by calling them.

    It starts no thread if OpenMP has a single thread, as in a worker's environment. Forks of a process with threads
    could wait forever.
    """
    for name in WARMED:
        importlib.import_module(name)
    from gpututor.worker.guard import code_of_worker

    code_of_worker()  # before the first machine, which patches classes of torch
    # The output of a run is the learner's; `gpututor doctor` names an untested torch.
    from gpututor.devices.virtual import virtual_gpu
    from gpututor.devices.virtual.options import UntestedTorch

    warnings.simplefilter("ignore", UntestedTorch)
    with virtual_gpu(obey_environment=False):  # without a guard, whose snapshot is to have these operators
        _call_usual_operators()
    for backends in (("cuda",), ()):  # the snapshots of torch differ
        with _virtual_machine(backends=backends):
            pass


@contextlib.contextmanager
def _virtual_machine(**scenario: Any) -> Iterator[None]:
    """Enter a machine, and look for replaced code, as a scenario does."""
    from gpututor.hardware.scenario import Scenario
    from gpututor.protocol.messages import MachineSpec
    from gpututor.worker.guard import TamperGuard
    from gpututor.worker.machine import enter_machine

    with enter_machine(MachineSpec(Scenario("", **scenario), "virtual", 0), "") as machine:
        machine.recorder.enabled = False
        guard = TamperGuard(machine)
        yield
        guard.changed()


def _call_usual_operators() -> None:
    """Call the operators of most submissions. Their first use is slow: 10 ms for a submission with three operators.

    Use no gradients: autograd starts threads, and a process with threads may not fork. Draw no random numbers: they
    would change the generator's state.
    """
    import torch

    device = torch.device("cuda")
    with torch.no_grad():
        x = torch.arange(6, device=device, dtype=torch.float32).reshape(2, 3)
        y = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).to(device, non_blocking=True)
        out = torch.cat([x + y, x - y, x * y, x / (y + 0.5), torch.zeros_like(x), torch.full_like(x, 2.0)])
        out = torch.nn.functional.relu(out @ torch.ones(3, 3, device=device).t())
        out = torch.nn.functional.linear(out, torch.eye(3, device=device), torch.zeros(3, device=device))
        out.add_(1.0).mul_(2.0).sub_(out.mean(0)).div_(out.std(0) + 1.0)
        logits = torch.softmax(out.clone().sqrt().exp(), dim=-1).log()
        torch.nn.functional.cross_entropy(logits, torch.arange(len(logits), device=device) % 3)
        torch.stack(torch.meshgrid(x[0], y[:, 1], indexing="ij"), dim=-1).to(torch.float16).float()
        torch.where(x > 1, x, y).masked_fill_(x == 0, 0.0).max(dim=1)
        torch.empty(3, device=device).copy_(x.sum(0).view(3)).argmax()
        x.index_select(0, torch.tensor([0], device=device)).unsqueeze(0).squeeze(0).contiguous()
    torch.cuda.synchronize()
    y.sum().item()
    x.cpu().numpy()


def begin(socket_fd: int, stack: int, scratch: Path, devices: list[dict[str, Any]], *, own_namespace: bool) -> int:
    """Report that this worker is ready, and serve; return the exit code. `stack`: the pipe for stack dumps."""
    import torch

    from gpututor.protocol.messages import apply_limits
    from gpututor.worker.service import serve

    sys.argv = ["submission"]
    connection = socket.socket(fileno=socket_fd)
    connection.set_inheritable(False)
    os.set_inheritable(stack, False)
    stream: BinaryIO = connection.makefile("rwb", buffering=1 << 16)  # type: ignore[assignment]
    os.chdir(scratch)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # the judge shows the newest line during a call
    # SIGUSR1 dumps the stack, so that a timeout names the line, even if Python code does not return.
    faulthandler.register(signal.SIGUSR1, file=stack)
    torch.set_num_threads(1)
    apply_limits(own_namespace)
    block_escaping_syscalls()
    if all(device["kind"] == "cpu" for device in devices):
        block_hidden_memory()
    write_frame(stream, {"event": "ready", "torch": torch.__version__, "devices": devices})
    # After a fork, this copies most pages that the first scenario will write to: 20 ms, mostly before any request.
    with _virtual_machine():
        pass
    return serve(stream, scratch)


if __name__ == "__main__":
    sys.exit(main())
