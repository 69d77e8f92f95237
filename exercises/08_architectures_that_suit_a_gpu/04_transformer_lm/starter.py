"""Transformer LM: positions in a buffer, a causal mask, nothing on the wrong side."""

import torch
from torch import nn

LONGEST = 32
"""Positions in the table."""


class LanguageModel(nn.Module):
    """Scores (n, steps, vocabulary) for the token that follows each of tokens (n, steps)."""

    def __init__(self, vocabulary: int, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, hidden, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        # TODO: the table of positions (above), its use, and the causal mask; then the function below.
        return self.head(self.encoder(self.embed(tokens)))


def transformer_lm(weights: dict, tokens: torch.Tensor, heads: int, device: torch.device) -> dict:
    """{"model": the language model, "scores": (n, steps, vocabulary) float32}, both on `device`.

    weights: a state dict on the CPU; its tensors say how large the parts are.
    tokens (n, steps), int64, on the CPU, steps <= LONGEST; heads: of each attention.
    """
    vocabulary, width = weights["embed.weight"].shape
    hidden = weights["encoder.layers.0.linear1.weight"].shape[0]
    model = LanguageModel(vocabulary, width, heads, hidden)
    return {"model": model, "scores": model(tokens)}


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    parts = {"embed": nn.Embedding(30, 8), "encoder": nn.TransformerEncoder(layer, 2), "head": nn.Linear(8, 30)}
    result = transformer_lm(nn.ModuleDict(parts).state_dict(), torch.randint(30, (2, 5)), 2, device)
    print(tuple(result["scores"].shape), result["scores"].device)
