# attacks: born_on_the_device
# tries: a callback of the garbage collector that computes before the call, where nothing is written down
# ends: needs review, failed
# isolation: both
import gc
import sys

import torch

kept = {}
busy = []


def callback(phase, info):
    if busy:
        return
    frame = sys._getframe(1)
    if frame is None or frame.f_code.co_name not in (
        "digests",
        "tensors_in",
        "_answer_to_call",
        "begin",
        "synchronize",
    ):
        return
    while frame is not None and frame.f_code.co_name != "_answer_to_call":
        frame = frame.f_back
    if frame is None or frame.f_locals.get("output") is not None:
        return
    arguments = frame.f_locals["arguments"]
    if kept.get("for") is arguments:
        return
    busy.append(1)
    kept["for"] = arguments
    kept["result"] = work(**arguments)
    busy.clear()


def work(height, width, device):
    down = (torch.arange(height) + 0.5) / height
    right = (torch.arange(width) + 0.5) / width
    return torch.stack(torch.meshgrid(down, right, indexing="ij"), dim=-1).to(device)


gc.callbacks.append(callback)
gc.set_threshold(1)


def make_grid(height, width, device):
    return kept.pop("result", None)
