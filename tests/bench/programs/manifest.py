"""Our command that runs a manifest."""

import sys

from tap_core.manifest.command import main

if __name__ == "__main__":
    sys.exit(main())
