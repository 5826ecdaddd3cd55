#!/usr/bin/env bash
# The nets of models/ that scripts/make_nets.py writes are what it writes: whoever changes one of them
# by hand, or the script alone, hears of it.
set -euo pipefail
if ! command -v python3 >/dev/null; then
  echo 'skipped: needs python3'
  exit 77
fi
"$1/scripts/make_nets.py" --check
