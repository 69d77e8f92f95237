"""No branches: both answers, and a choice on the device."""

import torch


def guarded(
    gradients: torch.Tensor, limit: float
) -> dict[str, torch.Tensor]:
    """Bad rows zeroed, long rows scaled to `limit`.

    If more than half of the rows are bad, all rows are zeroed.
    gradients: (samples, size), float32, on any device.
    limit: the longest norm of a row, above 0.
    Returns, on the same device,
        "gradients"  (samples, size)
        "bad"        how many rows held inf or nan, int64, ()
    """
    good = gradients.isfinite().all(dim=1, keepdim=True)
    # torch.where and not a product: nan * 0 is nan.
    finite = torch.where(good, gradients, 0.0)
    norms = torch.linalg.vector_norm(finite, dim=1, keepdim=True)
    # Rows below the limit are divided by the limit itself, which makes
    # their factor 1.
    factors = limit / norms.clamp(min=limit)
    bad = (~good).sum()
    usable = 2 * bad <= len(gradients)
    return {
        "gradients": torch.where(usable, finite * factors, 0.0),
        "bad": bad,
    }


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = [[3.0, 4.0], [0.1, 0.2], [float("nan"), 1.0]]
    gradients = torch.tensor(rows, device=device)
    print(guarded(gradients, 1.0))
