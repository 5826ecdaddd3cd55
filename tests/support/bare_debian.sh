# A Debian 12 that has nothing else, for check_package.sh and check_wheel.sh, which source this file. It is in the folder
# $root, which goes when the script ends; $report says how long each step took.

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}
skip() {
  printf 'skipped: %s\n' "$*"
  exit 77
}

# Runs a command there; what it mounts is gone when it ends.
there() {
  unshare --mount --fork bash -euc 'mount -t proc proc "$0/proc"; exec chroot "$0" /usr/bin/env -i \
    HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"' "$root" "$@"
}
# timed WHAT COMMAND...: its seconds are part of the report. Shows what it printed only if it fails.
report=
timed() {
  local what=$1 start=$EPOCHREALTIME
  shift
  printf '== %s\n' "$what"
  "$@" >"$root.log" 2>&1 || { cat "$root.log" >&2; rm -f -- "$root.log"; fail "failed: $what"; }
  rm -f -- "$root.log"
  report+=$(awk -v a="$start" -v b="$EPOCHREALTIME" -v what="$what" 'BEGIN { printf "%7.1f s  %s", b - a, what }')$'\n'
}
install() {
  there sh -euc 'apt-get update -qq; apt-get install --yes --no-install-recommends "$@"' sh "$@"
}

# make_bare_debian [PACKAGES]: with these packages, separated by commas, besides those that apt itself needs.
make_bare_debian() {
  ((EUID == 0)) || skip "a bare Debian is made by root alone"
  command -v debootstrap >/dev/null || skip "debootstrap is not installed: apt install debootstrap"
  root=$(mktemp -d)
  trap 'rm -rf -- "$root"' EXIT
  timed "bare Debian 12${1:+ with $1}" debootstrap --variant=minbase ${1:+--include="$1"} bookworm "$root" \
    "${DEBIAN_MIRROR:-http://deb.debian.org/debian}"
}
