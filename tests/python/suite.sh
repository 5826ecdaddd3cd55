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
# A module that is built with AddressSanitizer (CREMA_SANITIZE) needs its library before all others, and that of C++, whose exceptions it
# watches. What Python keeps to its end is no leak.
library_of() { ldd "$packages"/crema/_crema.*so | awk -v name="$1" '$1 ~ "^" name { print $3 }'; }
sanitizer=$(library_of libasan)
if [[ -n $sanitizer ]]; then
  export LD_PRELOAD="$sanitizer $(library_of 'libstdc[+][+]')" PYTHONMALLOC=malloc
  export ASAN_OPTIONS=detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS} UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
fi
exec "$python" -m pytest -q -rsf -p no:cacheprovider "$tests"
