"""Train a small language model: right, but over every budget.

python 01_meet_the_budget.py --seed 1 --steps 4 --batch 8
"""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional as F

# TODO: this works, but many faults cost time and memory. Find them, and
# fix them one by one.

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
        queries, keys, values = self.project(x).chunk(3, dim=-1)
        size, length = WIDTH // HEADS, x.shape[1]
        heads = []
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            scores = queries[..., part] @ keys[..., part].transpose(1, 2)
            later = torch.ones(length, length).triu(1).bool()
            scores = scores / math.sqrt(size)
            scores = scores.masked_fill(later.to(x.device), -math.inf)
            heads.append(scores.softmax(-1) @ values[..., part])
        return self.out(torch.cat(heads, dim=-1))


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

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """text: (n, length)."""
        x = self.words(text) + positions(text.shape[1]).to(text.device)
        return self.head(self.norm(self.blocks(x)))


def loss_of(scores: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy of each row: (n,)."""
    chosen = F.one_hot(words, WORDS).double()
    return -(scores.log_softmax(-1) * chosen).sum(-1).mean(-1)


def clip(parameters: list[nn.Parameter]) -> None:
    """Shorten all gradients together to LONGEST_GRADIENT."""
    squares = [p.grad.norm().item() ** 2 for p in parameters]
    length = math.sqrt(sum(squares))
    if length > LONGEST_GRADIENT:
        for parameter in parameters:
            parameter.grad *= LONGEST_GRADIENT / length


class Adam:
    """Adam, written out."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters, self.steps = parameters, 0
        self.means = [torch.zeros_like(p) for p in parameters]
        self.squares = [torch.zeros_like(p) for p in parameters]

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        rest = [1 - beta**self.steps for beta in BETAS]
        for number, parameter in enumerate(self.parameters):
            grad = parameter.grad
            mean, square = self.means[number], self.squares[number]
            mean.mul_(BETAS[0]).add_(grad * (1 - BETAS[0]))
            square.mul_(BETAS[1]).add_(grad * grad * (1 - BETAS[1]))
            change = (mean / rest[0]) / ((square / rest[1]).sqrt() + EPS)
            parameter.sub_(change * RATE)


def train(
    model: nn.Module, text: torch.Tensor, batch: int, device: torch.device
) -> dict:
    """Train; return the losses and a moving average of the weights."""
    parameters = list(model.parameters())
    optimizer = Adam(parameters)
    average = {}
    for name, value in model.named_parameters():
        average[name] = value.detach().cpu().clone()
    losses = []
    for start in range(0, len(text), batch):
        rows = range(start, start + batch)
        words = torch.stack([text[row].to(device) for row in rows])
        loss = loss_of(model(words[:, :-1]), words[:, 1:]).mean()
        for parameter in parameters:
            parameter.grad = None
        loss.backward(retain_graph=True)
        clip(parameters)
        optimizer.step()
        losses.append(loss)
        for name, value in model.named_parameters():
            now = value.detach().cpu()
            average[name] = DECAY * average[name] + (1 - DECAY) * now
        if device.type == "cuda":
            torch.cuda.empty_cache()
    losses = torch.stack(losses).float().detach().cpu()
    return {"losses": losses, "average": average}


def validate(
    model: nn.Module, text: torch.Tensor, device: torch.device
) -> torch.Tensor:
    """The loss of each row, (rows,), on the CPU."""
    losses = []
    for row in text:
        words = row.to(device).unsqueeze(0)
        losses.append(loss_of(model(words[:, :-1]), words[:, 1:]))
    return torch.cat(losses).float().detach().cpu()


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
