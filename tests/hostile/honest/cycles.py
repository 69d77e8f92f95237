# attacks: scores
# tries: nothing: what it makes holds itself, and tensors on the device, until the collector finds it
# ends: passed
# isolation: both
import sys


class Layer:
    def __init__(self, table, queries):
        self.table, self.queries, self.owner = table, queries, self

    def __del__(self):
        sys.stdout.write("gone\n")


def scores(table, queries, device):
    for _ in range(400):
        layer = Layer(None, None)
    layer = Layer(table.to(device), queries.to(device))
    return (layer.table @ layer.queries.T).relu()
