"""Programs with Triton kernels, built as Triton's tutorials 01 to 06 build them: each returns its error against torch.

Imports Triton: tests import this module after `pytest.importorskip("triton")`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Vector addition.


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, count, BLOCK: tl.constexpr):
    start = tl.program_id(axis=0) * BLOCK
    at = start + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(x_ptr + at, mask=inside)
    y = tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, x + y, mask=inside)


def vector_add(count: int = 5000) -> float:
    x, y = torch.rand(count, device="cuda"), torch.rand(count, device="cuda")
    out = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(count, meta["BLOCK"]),)](x, y, out, count, BLOCK=1024)
    return _error(out, x + y)


# Fused softmax: persistent programs, as many as the GPU holds.


@triton.jit
def softmax_kernel(
    out_ptr, in_ptr, in_stride, out_stride, rows, columns, BLOCK: tl.constexpr, num_stages: tl.constexpr
):
    first = tl.program_id(0)
    step = tl.num_programs(0)
    for row in tl.range(first, rows, step, num_stages=num_stages):
        at = tl.arange(0, BLOCK)
        mask = at < columns
        values = tl.load(in_ptr + row * in_stride + at, mask=mask, other=-float("inf"))
        shifted = values - tl.max(values, axis=0)
        powers = tl.exp(shifted)
        tl.store(out_ptr + row * out_stride + at, powers / tl.sum(powers, axis=0), mask=mask)


def fused_softmax(rows: int = 37, columns: int = 181) -> float:
    device = triton.runtime.driver.active.get_active_torch_device()
    properties = triton.runtime.driver.active.utils.get_device_properties(device.index)
    x = torch.randn(rows, columns, device=device)
    y = torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    sizes: dict[str, Any] = {"BLOCK": block, "num_stages": 2, "num_warps": 8}
    kernel = softmax_kernel.warmup(y, x, x.stride(0), y.stride(0), rows, columns, grid=(1,), **sizes)
    kernel._init_handles()
    occupancy = properties["max_num_regs"] // (kernel.n_regs * properties["warpSize"] * 8)
    occupancy = min(occupancy, properties["max_shared_mem"] // kernel.metadata.shared)
    programs = min(properties["multiprocessor_count"] * occupancy, rows)
    softmax_kernel[(programs, 1, 1)](y, x, x.stride(0), y.stride(0), rows, columns, block, 2)
    return _error(y, torch.softmax(x, dim=1))


# Matrix product: grouped order of programs, autotuned, with an activation.


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 2}, num_stages=3, num_warps=4),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 2}, num_stages=4, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * tiles_n
    first_m = (pid // in_group) * GROUP_M
    height = min(tiles_m - first_m, GROUP_M)
    tile_m = first_m + ((pid % in_group) % height)
    tile_n = (pid % in_group) // height
    tl.assume(tile_m >= 0)
    rows = (tile_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = (tile_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (rows[:, None] * stride_am + inner[None, :] * stride_ak)
    b_ptrs = b_ptr + (inner[:, None] * stride_bk + columns[None, :] * stride_bn)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - k * BLOCK_K, other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if ACTIVATION == "leaky_relu":
        total = leaky_relu(total)
    out = total.to(tl.float16)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * rows[:, None] + stride_cn * columns[None, :]
    tl.store(c_ptrs, out, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


def matrix_product(m: int = 70, n: int = 50, k: int = 90, activation: str = "leaky_relu") -> float:
    a = torch.randn((m, k), device="cuda", dtype=torch.float16)
    b = torch.randn((k, n), device="cuda", dtype=torch.float16)
    c = torch.empty((m, n), device="cuda", dtype=torch.float16)
    matmul_kernel[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)](
        a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), ACTIVATION=activation
    )
    expected = a.float() @ b.float()
    if activation:
        expected = torch.nn.functional.leaky_relu(expected)
    return _error(c.float(), expected) / 50  # float16, with values up to about 30


# Dropout from a seed.


@triton.jit
def dropout_kernel(x_ptr, out_ptr, count, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    x = tl.load(x_ptr + at, mask=mask)
    keep = tl.rand(seed, at) > p
    tl.store(out_ptr + at, tl.where(keep, x / (1 - p), 0.0), mask=mask)


def seeded_dropout(count: int = 3000, p: float = 0.3) -> float:
    x = torch.rand(count, device="cuda") + 1
    outs = []
    for seed in (123, 123, 512):
        outs.append(torch.empty_like(x))
        dropout_kernel[(triton.cdiv(count, 512),)](x, outs[-1], count, p, seed, BLOCK=512)
    kept = outs[0] != 0
    assert torch.equal(outs[0], outs[1])
    assert not torch.equal(outs[0], outs[2])
    assert abs(kept.float().mean().item() - (1 - p)) < 0.05
    return _error(outs[0], torch.where(kept, x / (1 - p), 0.0))


# Layer norm: forward, and a backward pass that sums in groups under a lock.


@triton.jit
def norm_kernel(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    sums = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        sums += tl.load(X + columns, mask=columns < N, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=0) / N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(X + columns, mask=columns < N, other=0.0).to(tl.float32)
        x = tl.where(columns < N, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = columns < N
        w = tl.load(W + columns, mask=mask)
        b = tl.load(B + columns, mask=mask)
        x = tl.load(X + columns, mask=mask, other=0.0).to(tl.float32)
        tl.store(Y + columns, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def norm_backward_kernel(DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    X += row * stride
    DY += row * stride
    DX += row * stride
    lock_id = row % GROUPS
    Lock += lock_id
    Count = Lock + GROUPS
    DW = DW + lock_id * N + columns
    DB = DB + lock_id * N + columns
    x = tl.load(X + columns, mask=mask, other=0).to(tl.float32)
    dy = tl.load(DY + columns, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + columns, mask=mask).to(tl.float32)
    mean = tl.load(Mean + row)
    rstd = tl.load(Rstd + row)
    hat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    c1 = tl.sum(hat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    tl.store(DX + columns, (wdy - (hat * c1 + c2)) * rstd, mask=mask)
    partial_dw = (dy * hat).to(w.dtype)
    partial_db = (dy).to(w.dtype)
    while tl.atomic_cas(Lock, 0, 1) == 1:
        pass
    count = tl.load(Count)
    if count == 0:
        tl.atomic_xchg(Count, 1)
    else:
        partial_dw += tl.load(DW, mask=mask)
        partial_db += tl.load(DB, mask=mask)
    tl.store(DW, partial_dw, mask=mask)
    tl.store(DB, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(Lock, 0)


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
        rows, columns = x.shape
        y = torch.empty_like(x)
        mean = torch.empty((rows,), dtype=torch.float32, device=x.device)
        rstd = torch.empty((rows,), dtype=torch.float32, device=x.device)
        norm_kernel[(rows,)](x, y, weight, bias, mean, rstd, x.stride(0), columns, eps, BLOCK=64, num_warps=4)
        ctx.save_for_backward(x, weight, mean, rstd)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        x, weight, mean, rstd = ctx.saved_tensors
        rows, columns = x.shape
        groups = 4
        locks = torch.zeros(2 * groups, dtype=torch.int32, device=x.device)
        dw = torch.zeros((groups, columns), dtype=x.dtype, device=x.device)
        db = torch.zeros((groups, columns), dtype=x.dtype, device=x.device)
        dx = torch.empty_like(dy)
        norm_backward_kernel[(rows,)](
            dx, dy, dw, db, x, weight, mean, rstd, locks, x.stride(0), columns, GROUPS=groups, BLOCK=128
        )
        return dx, dw.sum(0), db.sum(0), None


def layer_norm(rows: int = 13, columns: int = 100) -> float:
    x = torch.randn(rows, columns, device="cuda", requires_grad=True)
    weight = torch.rand(columns, device="cuda", requires_grad=True)
    bias = torch.rand(columns, device="cuda", requires_grad=True)
    dy = torch.randn(rows, columns, device="cuda")
    y: Any = LayerNorm.apply(x, weight, bias, 1e-5)
    y.backward(dy)
    ours = [y, *(each.grad.clone() for each in (x, weight, bias) if each.grad is not None)]
    x.grad = weight.grad = bias.grad = None
    expected = torch.nn.functional.layer_norm(x, (columns,), weight, bias, 1e-5)
    expected.backward(dy)
    theirs = [expected, *(each.grad for each in (x, weight, bias) if each.grad is not None)]
    assert len(ours) == 4
    return max(_error(mine, other) for mine, other in zip(ours, theirs, strict=True))


# Fused attention: one pass over keys and values, with descriptors made on the device.


@triton.jit
def attention_kernel(
    sm_scale,
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    stride,
    length,
    HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    start_m = tl.program_id(0)
    base = tl.program_id(1) * stride
    q_desc = tl.make_tensor_descriptor(q_ptr + base, [length, HEAD], [HEAD, 1], [BLOCK_M, HEAD])
    k_desc = tl.make_tensor_descriptor(k_ptr + base, [length, HEAD], [HEAD, 1], [BLOCK_N, HEAD])
    v_desc = tl.make_tensor_descriptor(v_ptr + base, [length, HEAD], [HEAD, 1], [BLOCK_N, HEAD])
    rows = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    highest = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    total = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD], dtype=tl.float32)
    q = q_desc.load([start_m * BLOCK_M, 0])
    end = (start_m + 1) * BLOCK_M if CAUSAL else length
    for start_n in tl.range(0, end, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k = k_desc.load([start_n, 0]).T
        qk = tl.dot(q, k) * (sm_scale * 1.44269504)
        if CAUSAL:
            qk = tl.where(rows[:, None] >= start_n + columns[None, :], qk, -1.0e6)
        new = tl.maximum(highest, tl.max(qk, 1))
        p = tl.math.exp2(qk - new[:, None])
        alpha = tl.math.exp2(highest - new)
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = v_desc.load([start_n, 0])
        acc = tl.dot(p.to(v.dtype), v, acc)
        highest = new
    acc = acc / total[:, None]
    out = tl.make_block_ptr(out_ptr + base, (length, HEAD), (HEAD, 1), (start_m * BLOCK_M, 0), (BLOCK_M, HEAD), (1, 0))
    tl.store(out, acc.to(out_ptr.dtype.element_ty))


def fused_attention(length: int = 64, head: int = 16, causal: bool = True) -> float:
    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    q, k, v = (torch.randn(1, 2, length, head, device="cuda", dtype=torch.float16) for _ in range(3))
    out = torch.empty_like(q)
    attention_kernel[(triton.cdiv(length, 32), 2)](
        head**-0.5, q, k, v, out, q.stride(1), length, HEAD=head, BLOCK_M=32, BLOCK_N=16, CAUSAL=causal
    )
    expected = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal)
    return _error(out.float(), expected) / 10  # float16


def _error(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got - expected).abs().max().item())


PROGRAMS = {
    each.__name__: each
    for each in (vector_add, fused_softmax, matrix_product, seeded_dropout, layer_norm, fused_attention)
}
