"""Entry point of `python -m tap_core`, which runs the command `tap-core`."""

import sys

from tap_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
