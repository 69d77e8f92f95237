# attacks: born_on_the_device
# tries: a profile function that takes the arguments as they are made, and computes before the call
# ends: needs review, failed, error
# isolation: both
import sys

import torch

kept = {}


def watch(frame, event, argument):
    if event == "return" and frame.f_code.co_name == "build" and isinstance(argument, dict):
        sys.setprofile(None)
        kept["result"] = work(**argument)
        sys.setprofile(watch)


def work(height, width, device):
    down = (torch.arange(height) + 0.5) / height
    right = (torch.arange(width) + 0.5) / width
    return torch.stack(torch.meshgrid(down, right, indexing="ij"), dim=-1).to(device)


sys.setprofile(watch)


def make_grid(height, width, device):
    return kept.pop("result")
