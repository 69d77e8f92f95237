# fails: syncs
# Checks at each step whether some text has ended: an `if` on a tensor.
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
    written = []
    with torch.inference_mode():
        scores, state = model(prompts.to(device))
        written.append((scores + noise[0]).argmax(dim=1, keepdim=True))
        for step_noise in noise[1:]:
            if (written[-1] == -1).all():
                break
            scores, state = model(written[-1], state)
            written.append((scores + step_noise).argmax(dim=1, keepdim=True))
        return torch.cat(written, dim=1).cpu()
