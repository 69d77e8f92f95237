"""Scaling efficiency: the same work on one GPU and on all of them."""

import time

import torch


def seconds_on(
    gpus: list[torch.device], batch: torch.Tensor, weight: torch.Tensor
) -> float:
    """Seconds of batch @ weight, of which each of `gpus` does a part.

    From the first launch until all parts are on the first of `gpus`.
    """
    # TODO: this uses one GPU only, and looks at the clock before the GPU
    # is done.
    start = time.perf_counter()
    batch.to(gpus[0]) @ weight.to(gpus[0])
    return time.perf_counter() - start


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
    return {"one": single, "all": together, "efficiency": 1.0}


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
