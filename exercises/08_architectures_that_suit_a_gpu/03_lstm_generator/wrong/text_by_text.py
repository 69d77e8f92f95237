# fails: launches
# Writes one text after another: right tokens, and the launches of a batch for each text.
import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self, vocabulary, width, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, tokens, state=None):
        outputs, state = self.lstm(self.embed(tokens), state)
        return self.head(outputs[:, -1]), state


def lstm_generator(weights, prompts, noise, device):
    vocabulary, width = weights["embed.weight"].shape
    model = Generator(vocabulary, width, weights["head.weight"].shape[1])
    model.load_state_dict(weights)
    model.to(device).eval()
    rows = []
    with torch.inference_mode():
        for text, prompt in enumerate(prompts.to(device).split(1)):
            tokens, state, written = prompt, None, []
            for step_noise in noise:
                scores, state = model(tokens, state)
                tokens = (scores + step_noise[text]).argmax(dim=1, keepdim=True)
                written.append(tokens)
            rows.append(torch.cat(written, dim=1))
        return torch.cat(rows).cpu()
