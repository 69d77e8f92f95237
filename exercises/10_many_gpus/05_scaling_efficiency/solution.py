"""Scaling efficiency: the same work on one GPU and on all of them."""

import time

import torch


def wait(gpus: list[torch.device]) -> None:
    """Until each of them has done all its work."""
    for gpu in gpus:
        torch.cuda.synchronize(gpu)


def seconds_on(
    gpus: list[torch.device], batch: torch.Tensor, weight: torch.Tensor
) -> float:
    """Seconds of batch @ weight, of which each of `gpus` does a part.

    From the first launch until all parts are on the first of `gpus`.
    """
    shares = [
        rows.to(gpu)
        for rows, gpu in zip(batch.chunk(len(gpus)), gpus, strict=True)
    ]
    weights = [weight.to(gpu) for gpu in gpus]
    elapsed = 0.0
    for _ in range(2):  # the first round warms up
        wait(gpus)
        start = time.perf_counter()
        parts = [
            rows @ factor
            for rows, factor in zip(shares, weights, strict=True)
        ]
        parts = [part.to(gpus[0]) for part in parts]
        wait(gpus)
        elapsed = time.perf_counter() - start
    return elapsed


def scaling_efficiency(
    batch: torch.Tensor, weight: torch.Tensor
) -> dict[str, float]:
    """Seconds of batch (n, d) @ weight (d, k) on one GPU and on all.

    And the efficiency, which is 1 at the best.
    """
    gpus = [
        torch.device("cuda", index)
        for index in range(torch.cuda.device_count())
    ]
    single = seconds_on(gpus[:1], batch, weight)
    together = seconds_on(gpus, batch, weight)
    return {
        "one": single,
        "all": together,
        "efficiency": single / (len(gpus) * together),
    }


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("This needs a GPU, better two: `gpututor run --gpus 2`.")
    else:
        random = torch.Generator().manual_seed(0)
        options = {"dtype": torch.float64, "generator": random}
        for rows in (100, 400, 800):
            batch = torch.rand(rows, 300, **options)
            weight = torch.rand(300, 300, **options)
            result = scaling_efficiency(batch, weight)
            shown = {key: f"{value:.2g}" for key, value in result.items()}
            print(rows, shown)
