# fails: launches
# Feeds one text at a time without its padding: right scores, and a launch for each step of each text.
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, vocabulary, width, hidden, classes):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.RNN(width, hidden, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, tokens, lengths):
        outputs, _ = self.rnn(self.embed(tokens))
        texts = torch.arange(len(tokens), device=tokens.device)
        return self.head(outputs[texts, lengths - 1])


def rnn_classifier(weights, tokens, lengths, device):
    vocabulary, width = weights["embed.weight"].shape
    classes, hidden = weights["head.weight"].shape
    model = Classifier(vocabulary, width, hidden, classes)
    model.load_state_dict(weights)
    model.to(device).eval()
    with torch.inference_mode():
        texts = tokens.to(device)
        steps = lengths.tolist()
        scores = []
        for text, count in zip(texts, steps, strict=True):
            outputs, _ = model.rnn(model.embed(text[None, :count]))
            scores.append(model.head(outputs[:, -1]))
        return torch.cat(scores)
