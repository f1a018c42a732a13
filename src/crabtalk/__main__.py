"""`python -m crabtalk`: the same command as the console script `crabtalk`."""

import sys

from crabtalk.cli import main

if __name__ == "__main__":
    sys.exit(main())
