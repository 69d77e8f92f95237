"""Attention that fits: no table of scores in memory."""

import torch


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
    # TODO: the same values without the table of scores.
    scores = query @ key.mT / query.shape[-1] ** 0.5
    if lengths is not None:
        places = torch.arange(key.shape[2], device=key.device)
        padding = places >= lengths[:, None]
        scores = scores.masked_fill(padding[:, None, None], -torch.inf)
    if causal:
        later = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return scores.softmax(dim=-1) @ value


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
