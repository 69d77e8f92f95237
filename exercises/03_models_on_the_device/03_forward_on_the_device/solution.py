"""Forward on the device: the batch follows the model."""

import torch
from torch import nn


@torch.inference_mode()
def predict(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """Probabilities (rows, classes) for a batch (rows, features).

    They are on the model's device.
    """
    device = next(model.parameters()).device
    model.eval()
    return model(batch.to(device)).softmax(dim=1)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(
        nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3)
    ).to(device)
    probabilities = predict(model, torch.randn(5, 4))
    shape = tuple(probabilities.shape)
    print(shape, probabilities.device, probabilities.requires_grad)
    row_sum = float(probabilities.detach().sum() / 5)
    print("each row adds up to", round(row_sum, 6))
