#!/usr/bin/env bash
# The pages of crema board in a browser: scripts run under the policy of the pages, and a page follows a run that a process
# writes. Skipped without Chromium, and in a build without cpp-httplib.
set -euo pipefail

skip() {
  echo "skipped: $*"
  exit 77
}
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

crema=${CREMA_BUILD_DIR:?}/bin/crema
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "Chromium is not here"
command -v flock >/dev/null || skip "flock is not here"

scratch=$(mktemp -d)
processes=()
cleanup() {
  ((${#processes[@]} == 0)) || kill "${processes[@]}" 2>/dev/null || true
  rm -rf -- "$scratch"
}
trap cleanup EXIT

run=$scratch/runs/live-1
mkdir -p "$run"
echo '{"name": "live-1", "net": "<b>tiny</b>", "max_iterations": 1000}' >"$run/run.json"
display() { printf '{"kind": "TRAIN", "iteration": %d, "loss": 0.%d, "rate": 0.1}\n' "$1" "$1"; }
for i in 10 20 30; do display $i; done >"$run/metrics.jsonl"
# As the process that trains: the file is locked, and grows.
(
  flock 9
  for ((i = 40; i < 1000; ++i)); do
    display $i >&9
    sleep 0.2
  done
) 9>>"$run/metrics.jsonl" &
processes+=($!)

"$crema" board "$scratch/runs" --port 0 >"$scratch/said" 2>"$scratch/errors" &
processes+=($!)
for ((k = 0; k < 100; ++k)); do
  grep -q 'http://' "$scratch/said" && break
  sleep 0.1
done
if grep -q 'CREMA_HTTPLIB' "$scratch/errors"; then skip "this build has no cpp-httplib: configure with CREMA_HTTPLIB=ON"; fi
url=$(sed -n 's/.*\(http:[^ ]*\).*/\1/p' "$scratch/said")
[[ -n $url ]] || fail "the board says no address: $(cat "$scratch/said" "$scratch/errors")"

# What the page is after some seconds; what its scripts complain of is on standard error.
page() {
  HOME=$scratch timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --enable-logging=stderr \
    --user-data-dir="$scratch/profile" --virtual-time-budget=9000 --dump-dom "$url$1" >"$scratch/page" 2>"$scratch/console" ||
    fail "the browser ended with $?: $(tail -5 "$scratch/console")"
  if grep -a 'CONSOLE' "$scratch/console"; then fail "the page $1 has errors"; fi
}

page ""
grep -q 'href="/run/live-1"' "$scratch/page" || fail "the list has no run"
grep -q '>running<' "$scratch/page" || fail "the list does not say that the run is in training"
page run/live-1
grep -q '<html[^>]*scripted' "$scratch/page" || fail "the script of the report did not run"
grep -q 'Live: this page follows the run' "$scratch/page" || fail "the page does not follow the run"
grep -q '<b>tiny' "$scratch/page" && fail "the name of the net is not escaped"
# The page that came had one state of the run, and shows a later one.
came=$(grep -o '"id":"head","hash":"[0-9]*"' "$scratch/page")
now=$(grep -o 'data-hash="[0-9]*"' "$scratch/page")
[[ -n $came && -n $now && ${came//[^0-9]/} != "${now//[^0-9]/}" ]] || fail "the page stayed as it came: $came, $now"
echo "passed"
