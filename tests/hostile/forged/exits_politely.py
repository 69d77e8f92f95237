# attacks: label
# tries: sys.exit(0) while the file is imported: a success for code that looks at exit codes
# ends: error
# isolation: both
raise SystemExit(0)
