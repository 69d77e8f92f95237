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
        rates = 10000.0 ** (-torch.arange(0, width, 2) / width)
        angles = torch.arange(LONGEST).unsqueeze(1) * rates
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        self.register_buffer("positions", table, persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        steps = tokens.shape[1]
        x = self.embed(tokens) + self.positions[:steps]
        mask = nn.Transformer.generate_square_subsequent_mask(steps, device=tokens.device)
        return self.head(self.encoder(x, mask=mask, is_causal=True))


def transformer_lm(weights: dict, tokens: torch.Tensor, heads: int, device: torch.device) -> dict:
    """{"model": the language model, "scores": (n, steps, vocabulary) float32}, both on `device`.

    weights: a state dict on the CPU; its tensors say how large the parts are.
    tokens (n, steps), int64, on the CPU, steps <= LONGEST; heads: of each attention.
    """
    vocabulary, width = weights["embed.weight"].shape
    hidden = weights["encoder.layers.0.linear1.weight"].shape[0]
    model = LanguageModel(vocabulary, width, heads, hidden)
    model.load_state_dict(weights)
    model.to(device).eval()
    with torch.inference_mode():
        scores = model(tokens.to(device))
    return {"model": model, "scores": scores}


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    parts = {"embed": nn.Embedding(30, 8), "encoder": nn.TransformerEncoder(layer, 2), "head": nn.Linear(8, 30)}
    result = transformer_lm(nn.ModuleDict(parts).state_dict(), torch.randint(30, (2, 5)), 2, device)
    print(tuple(result["scores"].shape), result["scores"].device)
