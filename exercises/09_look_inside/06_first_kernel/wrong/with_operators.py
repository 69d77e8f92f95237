# fails: launches
# Calls PyTorch's operators, each of which launches a kernel of its own.
import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def line_kernel(x_ptr, out_ptr, n, scale, shift, SIZE: tl.constexpr):
    offsets = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.maximum(scale * x + shift, 0.0)
    tl.store(out_ptr + offsets, y, mask=inside)


def first_kernel(x: torch.Tensor, scale: float, shift: float) -> torch.Tensor:
    """Return scale * x + shift, with zeros for negative values."""
    return (scale * x + shift).relu()
