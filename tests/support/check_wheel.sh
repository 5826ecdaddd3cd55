#!/usr/bin/env bash
# A wheel of Crema in a Debian 12 that has Python and nothing else: it installs, LeNet learns digits from memory, and the
# program trains, converts and classifies. Or the same on this machine, in virtual environments of other Pythons.
#   check_wheel.sh FILE.whl [PYTHON...]
# Run by scripts/wheel --check; takes minutes, most of them for downloads.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
source "$here/bare_debian.sh"

wheel=$1
shift
[[ -r $wheel ]] || fail "cannot read '$wheel'"
caffe=no
if python3 -c 'import sys, zipfile
sys.exit("caffe/__init__.py" not in zipfile.ZipFile(sys.argv[1]).namelist())' "$wheel"; then
  caffe=yes
fi

# What the wheel needs of PyPI is fetched here: the bare Debian has no network, and no certificates.
download() {
  python3 -m pip download --quiet --dest "$1" --only-binary :all: --python-version "$2" --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --platform any numpy nanobind-backend protobuf pillow
}

if [[ $# -gt 0 ]]; then
  for python in "$@"; do
    root=$(mktemp -d)
    trap 'rm -rf -- "$root"' EXIT
    version=$("$python" -c 'import platform; print(platform.python_version())') || fail "'$python' is no Python"
    timed "Python $version" bash -euc '"$1" -m venv "$2/venv"
"$2/venv/bin/pip" install --quiet "$3" pillow protobuf
mkdir "$2/first"
cd "$2/first"
PATH="$2/venv/bin:$PATH" python "$4" "$5"' bash "$python" "$root" "$(realpath -- "$wheel")" "$here/check_wheel.py" "$caffe"
    rm -rf -- "$root"
  done
  printf '\n%s' "$report"
  exit
fi

make_bare_debian python3-venv
[[ $(there sh -c 'ls /usr/lib/x86_64-linux-gnu | grep -cE "lib(gomp|openblas|protobuf|opencv)" || true') == 0 ]] ||
  fail "the bare Debian has libraries that the wheel is to bring"
timed "fetches numpy, protobuf and Pillow" download "$root/wheels" 3.11
cp -- "$wheel" "$here/check_wheel.py" "$root/wheels"
timed "installs the wheel" there sh -euc 'python3 -m venv /opt/crema
/opt/crema/bin/pip install --quiet --no-index --find-links /wheels /wheels/pycrema-*.whl'
said=$(there /opt/crema/bin/python -c 'import crema; print(crema.__version__)')
[[ $(there /opt/crema/bin/crema --version) == "crema $said" ]] || fail "program and package differ in their versions"
printf '   crema %s, with numpy and nanobind-backend alone\n' "$said"
timed "installs what the package caffe needs" there sh -euc '
/opt/crema/bin/pip install --quiet --no-index --find-links /wheels protobuf pillow'
check() {
  there sh -euc 'mkdir /root/first
cd /root/first
PATH=/opt/crema/bin:$PATH exec python /wheels/check_wheel.py "$1"' sh "$caffe" | tee "$root/said"
}
timed "trains LeNet, converts, tests and classifies" check
sed 's/^/   /' "$root/said"
printf '\n%s' "$report"
