#!/usr/bin/env bash
# Says whether the programs that data/keywords/make.py needs are there; fetches nothing.
#
#   data/keywords/get.sh
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
case ${1-} in
  -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac

missing=()
command -v espeak-ng >/dev/null || missing+=(espeak-ng)
for module in numpy h5py; do
  /usr/bin/python3 -c "import $module" 2>/dev/null || missing+=("$module of /usr/bin/python3")
done
if ((${#missing[@]})); then
  printf 'get.sh: error: missing: %s\n' "${missing[@]}" >&2
  echo "The words are spoken by espeak-ng: apt install espeak-ng python3-numpy python3-h5py" >&2
  exit 1
fi
echo "$here: espeak-ng, numpy and h5py are there"
