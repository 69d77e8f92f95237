# attacks: label
# tries: a result that is equal to everything, in every part
# ends: failed
# isolation: both
class Equal(str):
    def __eq__(self, other):
        return True

    __ne__ = lambda self, other: False
    __hash__ = str.__hash__


class Any(float):
    __eq__ = __le__ = __ge__ = lambda self, other: True
    __ne__ = __lt__ = __gt__ = lambda self, other: False
    __sub__ = __rsub__ = __abs__ = lambda self, *_: 0.0
    __hash__ = float.__hash__


def label(number):
    return {Equal("words"): Equal("anything"), Equal("half"): Any("nan")}
