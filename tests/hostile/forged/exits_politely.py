# attacks: label
# tries: sys.exit(0) while the file is imported: a success for whoever looks at exit codes
# ends: error
# isolation: both
raise SystemExit(0)
