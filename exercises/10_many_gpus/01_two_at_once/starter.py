"""Two at once: two GPUs compute at the same time, not in turn."""

import torch


def two_at_once(
    pairs: list[tuple[torch.Tensor, torch.Tensor]],
) -> torch.Tensor:
    """The Frobenius norm of left (n, k) @ right (k, m) for each pair.

    Both matrices of a pair are on one device. Returns (len(pairs),),
    float64, on the CPU.
    """
    norms = []
    for left, right in pairs:
        # TODO: the second GPU is idle until this line has its number.
        norms.append(torch.linalg.vector_norm(left @ right).item())
    return torch.tensor(norms, dtype=torch.float64)


if __name__ == "__main__":
    count = torch.cuda.device_count()
    gpus = [torch.device("cuda", index) for index in range(count)]
    gpus = gpus or [torch.device("cpu")]
    places = [gpus[index % len(gpus)] for index in range(2)]
    print([str(place) for place in places])
    random = torch.Generator().manual_seed(0)
    matrices = torch.rand(2, 9, 9, dtype=torch.float64, generator=random)
    pairs = [
        (matrix.to(place), matrix.to(place))
        for matrix, place in zip(matrices, places, strict=True)
    ]
    print(two_at_once(pairs))
