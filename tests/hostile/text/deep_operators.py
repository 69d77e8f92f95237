# attacks: label
# tries: an expression nested too deeply for the compiler
# ends: error, crashed, failed
# isolation: both
def label(number):
    return "@signs@"
