"""`python -m tap_core`: the command, where its script is not on the path.

Rules of the room: nothing but the call.
"""

import sys

from tap_core.cli import main

if __name__ == "__main__":
    sys.exit(main())
