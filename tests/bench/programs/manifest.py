"""The command `tap-manifest` of this project."""

import sys

from tap_core.manifest.cli import main

if __name__ == "__main__":
    sys.exit(main())
