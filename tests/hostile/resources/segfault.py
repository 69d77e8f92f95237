# attacks: patience
# tries: to read from address nought
# ends: crashed
# isolation: both
import ctypes


def scores(table, queries, device):
    ctypes.string_at(0)
