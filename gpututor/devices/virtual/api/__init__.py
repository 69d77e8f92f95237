"""Replacements of `torch.cuda` and its relatives while the virtual GPU is on."""
