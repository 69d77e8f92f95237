# fails: parity
# Makes the table but never adds it: the model treats a text as a bag of words.
import torch
from torch import nn

LONGEST = 32


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width, heads, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, hidden, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.head = nn.Linear(width, vocabulary)
        rates = 10000.0 ** (-torch.arange(0, width, 2) / width)
        angles = torch.arange(LONGEST).unsqueeze(1) * rates
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        self.register_buffer("positions", table, persistent=False)

    def forward(self, tokens):
        steps = tokens.shape[1]
        x = self.embed(tokens)
        mask = nn.Transformer.generate_square_subsequent_mask(steps, device=tokens.device)
        return self.head(self.encoder(x, mask=mask, is_causal=True))


def transformer_lm(weights, tokens, heads, device):
    vocabulary, width = weights["embed.weight"].shape
    hidden = weights["encoder.layers.0.linear1.weight"].shape[0]
    model = LanguageModel(vocabulary, width, heads, hidden)
    model.load_state_dict(weights)
    model.to(device).eval()
    with torch.inference_mode():
        scores = model(tokens.to(device))
    return {"model": model, "scores": scores}
