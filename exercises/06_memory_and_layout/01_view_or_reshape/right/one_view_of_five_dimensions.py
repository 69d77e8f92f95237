# One view of five dimensions, permuted and taken apart.
import torch


def split_and_join(qkv: torch.Tensor, context: torch.Tensor, heads: int) -> dict[str, torch.Tensor]:
    batch, time, width = qkv.shape
    parts = qkv.view(batch, time, 3, heads, width // 3 // heads).permute(2, 0, 3, 1, 4)
    query, key, value = parts.unbind(0)
    joined = context.permute(0, 2, 1, 3).reshape(batch, time, width // 3)
    return {"query": query, "key": key, "value": value, "joined": joined}
