#!/usr/bin/env bash
# The tests of the Python packages that a build has made. Exit code 77: Python lacks what they need.
#   suite.sh [PYTHON PACKAGES TESTS]
set -euo pipefail
if [[ $# -eq 0 ]]; then
  echo "skipped: the build has no Python packages; configure it with -DCREMA_PYTHON=ON"
  exit 77
fi
python=$1 packages=$2 tests=$3
for needed in pytest numpy; do
  "$python" -c "import $needed" 2>/dev/null || { echo "skipped: $python has no $needed"; exit 77; }
done
export PYTHONPATH=$packages PYTHONDONTWRITEBYTECODE=1
exec "$python" -m pytest -q -rs -p no:cacheprovider "$tests"
