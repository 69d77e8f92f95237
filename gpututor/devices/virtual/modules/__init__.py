"""Modules, optimisers and mixed precision on a virtual GPU."""
