#!/usr/bin/env bash
# A package of Crema in a Debian 12 that has nothing else: it installs with what it needs, LeNet learns the digits that it
# brings, a program is built with its library, and nothing is left when it is removed.
#   check_package.sh FILE.deb
# Run by scripts/package --test; takes minutes, most of them for downloads.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/bare_debian.sh"

[[ -r $1 ]] || fail "cannot read '$1'"
make_bare_debian
cp -- "$1" "$root/crema.deb"
timed "installs the package and what it needs" install /crema.deb

train='mkdir /root/first && cd /root/first
cp -r /usr/share/crema/data .
crema convert-mnist data/mnist/mini
crema models lenet --copy models/lenet
crema train --solver models/lenet/quickstart_solver.prototxt'
timed "trains LeNet on 4,000 digits, 16 times" there sh -euc "$train"
there sh -euc 'cd /root/first
crema test --model models/lenet/quickstart_train_val.prototxt --weights models/lenet/quickstart_iter_1000.caffemodel 2>&1 |
  grep "accuracy = "' | tee "$root/accuracy"
awk '/accuracy = / { right = $NF } END { exit !(right > 0.9) }' "$root/accuracy" || fail "it has not learned the digits"

[[ $(there crema --version) == "crema $(there dpkg-query -W -f '${source:Upstream-Version}' crema)" ]] ||
  fail "program and package differ in their versions"
there bash -euc '. /usr/share/bash-completion/completions/crema
COMP_WORDS=(crema tr); COMP_CWORD=1; _crema; [[ ${COMPREPLY[*]} == train ]]' || fail "bash does not complete"

timed "installs a compiler" install g++ cmake make pkg-config man-db
there sh -euc 'man -w crema crema-train caffe convert_imageset' >/dev/null || fail "pages are missing"
timed "builds a program with CMake and with pkg-config" there sh -euc 'cd /root
cmake -S /usr/share/crema/models/lenet/classify -B classify
cmake --build classify
g++ -std=c++20 /usr/share/crema/models/lenet/classify/classify.cpp -o by_pkg_config $(pkg-config --cflags --libs crema)
cd first
for program in ../classify/classify ../by_pkg_config; do
  printf "P5\n28 28\n255\n" >zero.pgm
  head -c 784 /dev/zero >>zero.pgm
  $program models/lenet/deploy.prototxt models/lenet/quickstart_iter_1000.caffemodel zero.pgm | grep "zero.pgm: [0-9]"
done'

there sh -c 'cd /root && crema train --solver models/lenet/quickstart_solver.prototxt' >"$root/said" 2>&1 || true
grep -q 'cp -r /usr/share/crema/data . brings data/mnist' "$root/said" || fail "no advice on data: $(<"$root/said")"

there dpkg-query -L crema | grep -v '^/[.]$' >"$root/files"
timed "removes the package" there apt-get purge --yes crema
left=$(while IFS= read -r path; do
  [[ ! -e $root$path && ! -L $root$path ]] || there dpkg-query -S "$path" >/dev/null 2>&1 || printf '%s\n' "$path"
done <"$root/files")
[[ -z $left ]] || fail "these are left: $left"
! there sh -c 'ldconfig -p | grep libcrema' || fail "the loader still knows libcrema"
printf '\n%s' "$report"
