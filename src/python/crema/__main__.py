"""The program crema: `crema train ...`, or `python -m crema train ...`."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Runs the program with the words of the command line. Returns its exit status."""
    from . import _crema

    # Layers written in Python lie beside the nets that name them.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return _crema.run_program(["crema", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
