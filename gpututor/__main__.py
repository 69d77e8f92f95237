"""`python -m gpututor`: the same as `gpututor`."""

import sys

from gpututor.cli.main import main

sys.exit(main())
