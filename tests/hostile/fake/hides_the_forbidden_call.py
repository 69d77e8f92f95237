# attacks: plain
# tries: to call what the rules forbid by a name put together at run time
# ends: needs review
# isolation: both
def total(numbers):
    return getattr(numbers.sum(), "it" + "em")()
