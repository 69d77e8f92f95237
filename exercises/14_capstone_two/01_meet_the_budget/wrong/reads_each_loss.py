# fails: syncs
# Reads the loss of each step: the host waits before it prepares the next step.
"""Train a small language model: within its budgets of time and memory.

python 01_meet_the_budget.py --seed 1 --steps 4 --batch 8
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

WORDS, WIDTH, HEADS, LAYERS, LENGTH = 48, 32, 4, 2, 64
RATE, BETAS, EPS, LONGEST_GRADIENT = 0.01, (0.9, 0.99), 1e-3, 0.5
DECAY = 0.8


def make_text(seed: int, rows: int) -> torch.Tensor:
    """Make rows of words (rows, LENGTH + 1), on the CPU.

    The words of a row go up by equal steps; one in ten is random.
    """
    chance = torch.Generator().manual_seed(seed)
    first = torch.randint(WORDS, (rows, 1), generator=chance)
    step = torch.randint(1, 5, (rows, 1), generator=chance)
    text = (first + step * torch.arange(LENGTH + 1)) % WORDS
    noise = torch.randint(WORDS, text.shape, generator=chance)
    noisy = torch.rand(text.shape, generator=chance) < 0.1
    return torch.where(noisy, noise, text)


class Attention(nn.Module):
    """Causal attention with several heads."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (n, length, WIDTH)."""
        n, length, _ = x.shape
        parts = self.project(x).view(n, length, 3, HEADS, WIDTH // HEADS)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return self.out(heads.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and a small network, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        return x + self.down(F.gelu(self.up(self.second(x))))


def positions(length: int) -> torch.Tensor:
    """Return a table (length, WIDTH) that encodes the positions."""
    rate = 100 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
    angle = torch.arange(length).unsqueeze(1) * rate
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class Model(nn.Module):
    """Scores of the next word for each word of a row."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)
        self.register_buffer("positions", positions(LENGTH), persistent=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """text: (n, length)."""
        x = self.words(text) + self.positions
        return self.head(self.norm(self.blocks(x)))


def loss_of(scores: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy of each row: (n,)."""
    scores = scores.transpose(1, 2)
    return F.cross_entropy(scores, words, reduction="none").mean(-1)


def train(model: nn.Module, text: torch.Tensor, batch: int, device: torch.device) -> dict:
    """Train; return the losses and a moving average of the weights."""
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=RATE, betas=BETAS, eps=EPS, fused=True)
    average = [parameter.detach().clone() for parameter in parameters]
    losses = []
    for words in text.to(device).split(batch):
        loss = loss_of(model(words[:, :-1]), words[:, 1:]).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, LONGEST_GRADIENT)
        optimizer.step()
        losses.append(loss.item())
        with torch.no_grad():
            for value, now in zip(average, parameters, strict=True):
                value.lerp_(now, 1 - DECAY)
    names = [name for name, _ in model.named_parameters()]
    average = [value.cpu() for value in average]
    return {
        "losses": torch.tensor(losses),
        "average": dict(zip(names, average, strict=True)),
    }


@torch.inference_mode()
def validate(model: nn.Module, text: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The loss of each row, (rows,), on the CPU."""
    words = text.to(device)
    return loss_of(model(words[:, :-1]), words[:, 1:]).cpu()


def main(seed: int, steps: int, batch: int) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(seed)
    model = Model().to(device)
    text = make_text(seed, steps * batch)
    result = train(model, text, batch, device)
    text = make_text(seed + 1, 2 * batch)
    result["validation"] = validate(model, text, device)
    torch.save(result, "result.pt")
    print(f"{steps} steps, loss {result['losses'][-1]:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8)
    main(**vars(parser.parse_args()))
