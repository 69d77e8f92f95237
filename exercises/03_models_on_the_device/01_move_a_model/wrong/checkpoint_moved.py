# fails: placement
# Moves the checkpoint; load_state_dict then copies the values back into a model on the CPU.
from torch import nn


def move_a_model(checkpoint, channels, classes, device):
    model = nn.Sequential(
        nn.Conv2d(channels, 8, kernel_size=3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 16),
        nn.ReLU(),
        nn.Linear(16, classes),
    )
    checkpoint = {name: tensor.to(device) for name, tensor in checkpoint.items()}
    model.load_state_dict(checkpoint)
    return model
