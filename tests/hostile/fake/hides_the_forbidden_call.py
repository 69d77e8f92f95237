# attacks: plain
# tries: to call what the rules forbid by a name put together at run time
# ends: failed
# open: rules on the source read its text and do not run it
# isolation: both
def total(numbers):
    return getattr(numbers.sum(), "it" + "em")()
