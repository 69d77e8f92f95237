# fails: structure
# strict=False hides that the names of the checkpoint fit no layer of this model.
from torch import nn


def move_a_model(checkpoint, channels, classes, device):
    body = nn.Sequential(nn.Conv2d(channels, 8, kernel_size=3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, classes))
    model = nn.Sequential(body, head)
    model.load_state_dict(checkpoint, strict=False)
    return model.to(device)
