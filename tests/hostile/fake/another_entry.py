# attacks: label
# tries: a callable object with attributes of a function
# ends: failed, error, timeout
# isolation: both
class Function:
    __code__ = property(lambda self: exit(0))
    __wrapped__ = property(lambda self: self)

    def __call__(self, **arguments):
        return None


label = Function()
