"""View or reshape: split and join attention heads, and copy only what no view can give."""

import torch


def split_and_join(qkv: torch.Tensor, context: torch.Tensor, heads: int) -> dict[str, torch.Tensor]:
    """Views of qkv (b, t, 3 * h * s) as three tensors (b, h, t, s), and context (b, h, t, s) as (b, t, h * s)."""
    query, key, value = (
        part.unflatten(-1, (heads, -1)).transpose(1, 2)  # (b, t, h, s) -> (b, h, t, s)
        for part in qkv.chunk(3, dim=-1)
    )
    joined = context.transpose(1, 2).flatten(2)  # a view where the order allows one, else a copy
    return {"query": query, "key": key, "value": value, "joined": joined}


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    qkv = torch.randn(2, 6, 24, device=device)
    context = torch.randn(2, 2, 6, 4, device=device)
    for name, tensor in split_and_join(qkv, context, heads=2).items():
        shares = any(tensor.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for x in (qkv, context))
        print(f"{name:7} {tuple(tensor.shape)}, strides {tensor.stride()}, {'a view' if shares else 'a copy'}")
