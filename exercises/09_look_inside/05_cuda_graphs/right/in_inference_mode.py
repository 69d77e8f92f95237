# Captures in inference mode, in a class that holds the graph, and replays outside of that mode.
import torch
from torch import nn


class Graphed:
    @torch.inference_mode()
    def __init__(self, model: nn.Module, batch: torch.Tensor) -> None:
        with torch.inference_mode(False):
            self.batch = batch.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(self.batch)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.output = model(self.batch)

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        self.batch.copy_(batch)
        self.graph.replay()
        return self.output.clone()


def replay_all(model: nn.Module, batches: torch.Tensor) -> torch.Tensor:
    graphed = Graphed(model, batches[0])
    return torch.stack([graphed(batch) for batch in batches])
