"""`python -m tap_core`: the command `tap-core`, where its script is not on the path."""

import sys

from tap_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
