"""The program crema: `crema train ...`, or `python -m crema train ...`."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Runs the program with the words of the command line. Returns its exit status."""
    from . import _crema

    # The models that come with the package stand behind those that the user names.
    models = os.path.join(os.path.dirname(os.path.abspath(__file__)), "share", "models")
    if os.path.isdir(models):
        named = [folder for folder in os.environ.get("CREMA_MODEL_PATH", "").split(":") if folder]
        if models not in named:
            os.environ["CREMA_MODEL_PATH"] = ":".join([*named, models])
    # The program says all; the package, only warnings.
    if "GLOG_minloglevel" not in os.environ:
        _crema.set_log_level(0)
    # Layers written in Python lie beside the nets that name them.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return _crema.run_program(["crema", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
