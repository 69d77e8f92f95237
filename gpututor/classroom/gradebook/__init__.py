"""The gradebook of a class: made of the journal, what was handed in, and the rules, at any time; and its exports.

`model` has the data, `make` makes them, `exports` has a module for each format.
"""
