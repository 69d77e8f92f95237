"""Two at once: let two GPUs compute at the same time, not one after the other."""

import torch


def two_at_once(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """The Frobenius norm of left (n, k) @ right (k, m) for each pair: (len(pairs),), float64, on the CPU.

    Both matrices of a pair are on one device.
    """
    norms = [torch.linalg.vector_norm(left @ right) for left, right in pairs]
    return torch.stack([norm.cpu() for norm in norms])


if __name__ == "__main__":
    gpus = [torch.device("cuda", index) for index in range(torch.cuda.device_count())] or [torch.device("cpu")]
    places = [gpus[index % len(gpus)] for index in range(2)]
    print([str(place) for place in places])
    random = torch.Generator().manual_seed(0)
    matrices = [torch.rand(9, 9, dtype=torch.float64, generator=random) for _ in range(2)]
    print(two_at_once([(matrix.to(place), matrix.to(place)) for matrix, place in zip(matrices, places, strict=True)]))
