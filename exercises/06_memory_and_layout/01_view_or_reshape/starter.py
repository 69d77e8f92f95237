"""View or reshape: split and join attention heads, and copy only what no view can give."""

import torch


def split_and_join(qkv: torch.Tensor, context: torch.Tensor, heads: int) -> dict[str, torch.Tensor]:
    """Views of qkv (b, t, 3 * h * s) as three tensors (b, h, t, s), and context (b, h, t, s) as (b, t, h * s)."""
    # TODO: the shapes of keys and values are still wrong, and there are copies that no one needs.
    query = torch.stack(qkv[..., : qkv.shape[-1] // 3].chunk(heads, dim=-1), dim=1)
    return {"query": query, "key": qkv, "value": qkv, "joined": context.clone()}


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    qkv = torch.randn(2, 6, 24, device=device)
    context = torch.randn(2, 2, 6, 4, device=device)
    for name, tensor in split_and_join(qkv, context, heads=2).items():
        shares = any(tensor.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for x in (qkv, context))
        print(f"{name:7} {tuple(tensor.shape)}, strides {tensor.stride()}, {'a view' if shares else 'a copy'}")
