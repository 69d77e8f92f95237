"""Attention that fits: no table of scores in memory."""

import torch
from torch.nn import functional


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    lengths: torch.Tensor | None = None,
    causal: bool = False,
) -> torch.Tensor:
    """Attention of (texts, heads, m, size) to n keys and values.

    lengths: (texts,) int64, the real keys of each text; or None.
    causal: query p sees the keys 0 to p only.
    """
    mask = None
    if lengths is not None:
        places = torch.arange(key.shape[2], device=key.device)
        mask = (places < lengths[:, None])[:, None, None]
    return functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=causal
    )


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape = (2, 4, 512, 16)
    query, key, value = (torch.randn(shape, device=device) for _ in "qkv")
    lengths = torch.tensor([512, 100], device=device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    print(attend(query, key, value, lengths).shape)
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated() - before
        print(f"{peak / 2**20:.2f} MiB at the peak")
