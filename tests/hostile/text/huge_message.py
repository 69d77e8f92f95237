# attacks: label
# tries: an error with a message of forty mebibytes
# ends: error
# isolation: both
def label(number):
    raise ValueError("x\n" * (20 << 20))
