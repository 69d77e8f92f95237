# fails: placement
# Returns the result on the CPU.
import torch
import triton
import triton.language as tl

TILE = 32


@triton.jit
def layer_kernel(
    x_ptr, w_ptr, bias_ptr, residual_ptr, out_ptr, m, n, k,
    SIZE: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * SIZE + tl.arange(0, SIZE))[:, None]
    column = (tl.program_id(1) * SIZE + tl.arange(0, SIZE))[None, :]
    total = tl.zeros([SIZE, SIZE], tl.float32)
    for first in range(0, k, SIZE):
        across = first + tl.arange(0, SIZE)[None, :]
        down = first + tl.arange(0, SIZE)[:, None]
        in_x, in_w = (row < m) & (across < k), (down < k) & (column < n)
        x = tl.load(x_ptr + row * k + across, mask=in_x, other=0.0)
        w = tl.load(w_ptr + down * n + column, mask=in_w, other=0.0)
        total += tl.dot(x, w)
    inside = (row < m) & (column < n)
    at = row * n + column
    bias = tl.load(bias_ptr + column, mask=column < n)
    total = tl.maximum(total + bias, 0.0)
    total += tl.load(residual_ptr + at, mask=inside)
    tl.store(out_ptr + at, total, mask=inside)


def residual_layer(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    residual: torch.Tensor,
) -> torch.Tensor:
    (m, k), n = x.shape, weight.shape[1]
    out = torch.empty_like(residual)
    grid = (triton.cdiv(m, TILE), triton.cdiv(n, TILE))
    tensors = (x, weight, bias, residual, out)
    layer_kernel[grid](*tensors, m, n, k, SIZE=TILE)
    return out.cpu()
