# attacks: label
# tries: a module whose attributes are code that exits
# ends: error
# isolation: both
def __getattr__(name):
    raise SystemExit(0)
