"""LSTM generator: token and state stay on the device."""

import torch
from torch import nn


class Generator(nn.Module):
    """A module that scores the token after tokens (n, steps).

    It returns the scores (n, vocabulary) and the LSTM's state.
    """

    def __init__(self, vocabulary: int, width: int, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)


def lstm_generator(
    weights: dict,
    prompts: torch.Tensor,
    noise: torch.Tensor,
    device: torch.device,
) -> torch.Tensor:
    """New tokens (n, steps), int64, on the CPU.

    weights: a state dict on the CPU; it says how large the parts are.
    prompts: (n, p), int64, on the CPU.
    noise: (steps, n, vocabulary), float32, on `device`.
    """
    # TODO: write Generator.forward; then read the prompts once, and feed
    # token and state back.
    return torch.zeros(len(prompts), noise.shape[0], dtype=torch.int64)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    parts = {
        "embed": nn.Embedding(30, 8),
        "lstm": nn.LSTM(8, 16, batch_first=True),
        "head": nn.Linear(16, 30),
    }
    prompts = torch.randint(30, (2, 5))
    noise = -torch.rand(12, 2, 30, device=device).log().neg().log()
    weights = nn.ModuleDict(parts).state_dict()
    print(lstm_generator(weights, prompts, noise, device))
