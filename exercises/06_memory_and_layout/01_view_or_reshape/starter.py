"""View or reshape: split and join heads; copy what no view can give."""

import torch


def split_and_join(
    qkv: torch.Tensor, context: torch.Tensor, heads: int
) -> dict[str, torch.Tensor]:
    """Split qkv into heads, and join the heads of context.

    qkv (b, t, 3 * h * s) gives three tensors (b, h, t, s), all of them
    views; context (b, h, t, s) gives one of (b, t, h * s).
    """
    # TODO: the shapes of keys and values are still wrong, and there are
    # copies that no one needs.
    third = qkv[..., : qkv.shape[-1] // 3]
    query = torch.stack(third.chunk(heads, dim=-1), dim=1)
    joined = context.clone()
    return {"query": query, "key": qkv, "value": qkv, "joined": joined}


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    qkv = torch.randn(2, 6, 24, device=device)
    context = torch.randn(2, 2, 6, 4, device=device)
    given = [x.untyped_storage().data_ptr() for x in (qkv, context)]
    for name, tensor in split_and_join(qkv, context, heads=2).items():
        memory = tensor.untyped_storage().data_ptr()
        kind = "a view" if memory in given else "a copy"
        shape = tuple(tensor.shape)
        print(f"{name:7} {shape}, strides {tensor.stride()}, {kind}")
