"""RNN classifier: texts of different lengths, one batch."""

import torch
from torch import nn


class Classifier(nn.Module):
    """Scores (n, classes) of texts (n, steps) of different lengths."""

    def __init__(
        self, vocabulary: int, width: int, hidden: int, classes: int
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.RNN(width, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)


def rnn_classifier(
    weights: dict,
    tokens: torch.Tensor,
    lengths: torch.Tensor,
    device: torch.device,
) -> torch.Tensor:
    """Scores (n, classes) of a trained classifier, float32, on `device`.

    weights: its state dict, on the CPU; it says how large the parts are.
    tokens (n, steps) and lengths (n,), int64, on the CPU; text i has
    lengths[i] >= 1 tokens, then zeros.
    """
    # TODO: write Classifier.forward, then build, load, move, and score
    # the batch here.
    return torch.zeros(len(tokens), 1, device=device)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    parts = {
        "embed": nn.Embedding(50, 8),
        "rnn": nn.RNN(8, 16, batch_first=True),
        "head": nn.Linear(16, 4),
    }
    tokens = torch.randint(1, 50, (3, 6))
    lengths = torch.tensor([6, 2, 4])
    tokens[torch.arange(6) >= lengths.unsqueeze(1)] = 0
    weights = nn.ModuleDict(parts).state_dict()
    scores = rnn_classifier(weights, tokens, lengths, device)
    print(tuple(scores.shape), scores.device)
