# attacks: patience
# tries: a result whose parts never end
# ends: failed, timeout
# isolation: both
class Endless(list):
    def __iter__(self):
        while True:
            yield 1


class Mapping(dict):
    def items(self):
        while True:
            yield 1, 2


def scores(table, queries, device):
    return [Endless(), Mapping()]
