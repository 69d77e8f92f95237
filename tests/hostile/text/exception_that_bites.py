# attacks: label
# tries: an exception whose class, notes, line and message are code, or no text
# ends: error
# isolation: both
class Meta(type):
    __name__ = property(lambda self: 1 / 0)


class Bad(SyntaxError, metaclass=Meta):
    __notes__ = property(lambda self: 1 / 0)
    filename = property(lambda self: __file__)
    msg = property(lambda self: object())
    lineno = "one"


def label(number):
    raise Bad
