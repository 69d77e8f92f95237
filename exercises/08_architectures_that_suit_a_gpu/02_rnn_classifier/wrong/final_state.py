# fails: parity
# Takes the final state, which has read the padding too: without packing, no text stops early.
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, vocabulary, width, hidden, classes):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.RNN(width, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, tokens, lengths):
        _, last = self.rnn(self.embed(tokens))
        return self.head(last[-1])


def rnn_classifier(weights, tokens, lengths, device):
    vocabulary, width = weights["embed.weight"].shape
    classes, hidden = weights["head.weight"].shape
    model = Classifier(vocabulary, width, hidden, classes)
    model.load_state_dict(weights)
    model.to(device).eval()
    with torch.inference_mode():
        return model(tokens.to(device), lengths.to(device))
