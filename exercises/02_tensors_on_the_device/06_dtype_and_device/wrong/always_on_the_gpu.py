# fails: transfers
# Always converts on the GPU because it is fast there; float64 then crosses in full width.
import torch


def move_as(tensor, device, dtype):
    if tensor.device.type == "cpu":
        return tensor.to(device).to(dtype)
    return tensor.to(dtype).to(device)
