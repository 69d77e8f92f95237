# Each tower has a side stream; events make the fork and the join.
import torch
import torch.nn.functional as F


def tower(x: torch.Tensor, layers: list[torch.Tensor]) -> torch.Tensor:
    for layer in layers:
        x = x @ layer
    return torch.tanh(x)


def two_towers(features: torch.Tensor, left: list[torch.Tensor], right: list[torch.Tensor]) -> torch.Tensor:
    main = torch.cuda.current_stream(features.device)
    x = F.normalize(features, dim=1)
    ready = main.record_event()
    results = []
    for layers in (left, right):
        side = torch.cuda.Stream(features.device)
        side.wait_event(ready)
        x.record_stream(side)
        with torch.cuda.stream(side):
            result = tower(x, layers)
        result.record_stream(main)
        results.append((result, side.record_event()))
    for _, done in results:
        main.wait_event(done)
    (of_left, _), (of_right, _) = results
    return torch.einsum("nc,nc->n", of_left, of_right)
