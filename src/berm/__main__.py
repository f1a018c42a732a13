"""`python -m berm`: the same command as the console script `berm`."""

import sys

from berm.cli import main

if __name__ == "__main__":
    sys.exit(main())
