"""The text of a virtual tensor, as torch prints one on CUDA."""

from __future__ import annotations

import torch

from gpututor.devices.virtual import private
from gpututor.devices.virtual.tensors.sparse import sparse_text
from gpututor.devices.virtual.tensors.tensor import VirtualTensor


def text_of(tensor: VirtualTensor) -> str:
    """`tensor([1., 2.], device='cuda:0', grad_fn=<MulBackward0>)`; a parameter says so first."""
    node = tensor.grad_fn
    with private.host_only():
        host = tensor._host.detach()
        prefix = "tensor("
        suffixes = [f"device='{tensor._device}'"]
        complex_default = torch.complex128 if torch.get_default_dtype() is torch.float64 else torch.complex64
        usual = host.dtype in (torch.get_default_dtype(), complex_default, torch.int64, torch.bool)
        if host.is_meta:
            suffixes += [f"size={tuple(host.shape)}", *([] if usual else [f"dtype={host.dtype}"]), "no values"]
            values = "..."
        elif host.layout is not torch.strided:
            values, suffixes = sparse_text(host, tensor._device)
        elif host.numel() == 0:
            if host.dim() != 1:
                suffixes.append(f"size={tuple(host.shape)}")
            if host.dtype is not torch.get_default_dtype():
                suffixes.append(f"dtype={host.dtype}")
            values = "[]"
        else:
            if not usual:
                suffixes.append(f"dtype={host.dtype}")
            values = private.format_values(host, len(prefix))
        if node is not None:
            name = type(node).__name__
            if name == "CppFunction":
                name = node.name().rsplit("::", maxsplit=1)[-1]
            suffixes.append(f"grad_fn=<{name}>")
        elif tensor.requires_grad:
            suffixes.append("requires_grad=True")
        text = str(private.join_suffixes(prefix + values, suffixes, len(prefix), force_newline=tensor.is_sparse))
    return f"Parameter containing:\n{text}" if getattr(tensor, "_is_param", False) else text
