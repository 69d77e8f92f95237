"""Same device: fix code that mixes devices; move the smaller side."""

import torch


def similarity(
    table: torch.Tensor, queries: torch.Tensor
) -> torch.Tensor:
    """Similarity of each row of the table to each query.

    table (n, d) and queries (q, d), float32, on any two devices.
    Returns (n, q), on the device of the larger of the two tensors.
    """
    # TODO: this works only while both are on one device.
    return table @ queries.T


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    table = torch.randn(1000, 64, device=device)
    queries = torch.randn(3, 64)
    result = similarity(table, queries)
    print(tuple(result.shape), result.device)
