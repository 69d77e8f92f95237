"""What a class handed in: layouts, names, refusals."""
