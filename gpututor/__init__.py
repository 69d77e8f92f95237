"""gpututor: a terminal exercise trainer for GPU acceleration with PyTorch."""

__version__ = "0.1.0"
