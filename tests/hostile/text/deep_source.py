# attacks: label
# tries: brackets that no parser likes
# ends: error
# isolation: both
def label(number):
    return "@brackets@"
