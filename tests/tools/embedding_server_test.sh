#!/usr/bin/env bash
# models/lenet/server answers in order, from four threads that share weights, what models/lenet/classify says.
#   embedding_server_test.sh SOURCE_DIR SHARED_DIR   (CREMA_BUILD_DIR names the build to install)
# shellcheck source=tests/tools/embedding.sh
. "${BASH_SOURCE[0]%/*}/embedding.sh"
build_program lenet/classify
build_program lenet/server
server=$work/server/server
train_lenet
write_digits 100

# Every digit ten times, and in between an image that is not there and a file that is no image.
for ((round = 0; round < 10; ++round)); do
  printf '%s\n' "$work"/pgm/*.pgm /nowhere.pgm "$deploy"
done >"$work/requests"
"$work/classify/classify" "$deploy" "$lenet" "$work"/pgm/*.pgm >"$work/classified"
for ((round = 0; round < 10; ++round)); do
  cat "$work/classified"
  echo "/nowhere.pgm: error: cannot open '/nowhere.pgm'"
  echo "$deploy: error: '$deploy' is no binary PGM image of 28x28"
done >"$work/expected"
for threads in 4 4 1 13; do
  "$server" "$deploy" "$lenet" $threads <"$work/requests" >"$work/answers" 2>"$work/statistics"
  same_answers "$work/expected" "$work/answers" || fail "other answers than classify's from $threads threads"
  cat "$work/statistics"
  grep -q "^1020 requests, 20 failed, $threads threads, " "$work/statistics"
  # The latencies ascend, and the longest is no longer than all of it.
  sed -nE '2s/.*median ([0-9.]+), 90% ([0-9.]+), 99% ([0-9.]+), most ([0-9.]+)$/\1 \2 \3 \4/p' "$work/statistics" |
    awk '{ exit !(0 < $1 && $1 <= $2 && $2 <= $3 && $3 <= $4) }' || fail "no such latencies"
done

# An answer comes before the next request, and no request is no error.
coproc "$server" "$deploy" "$lenet" 2>"$work/statistics"
for image in 000 001; do
  echo "$work/pgm/$image.pgm" >&"${COPROC[1]}"
  read -r -t 60 answer <&"${COPROC[0]}" || fail "no answer while the input is open"
  grep -qF "${answer% (*}" "$work/classified" || fail "another answer than classify's: $answer"
done
server_id=$COPROC_PID input=${COPROC[1]}
exec {input}>&-
wait "$server_id"
grep -q '^2 requests, 0 failed, 4 threads' "$work/statistics"
"$server" "$deploy" "$lenet" </dev/null 2>"$work/statistics"
[[ $(cat "$work/statistics") == "0 requests, 0 failed, 4 threads, "*" s" ]]

# 200,000 further requests take no further memory.
coproc "$server" "$deploy" "$lenet" >"$work/many" 2>"$work/statistics"
server_id=$COPROC_PID
exec {input}>&"${COPROC[1]}"-
# Waits for the answers to $1 requests; $resident are the kB that the server then has.
answered() {
  local i
  for ((i = 0; $(wc -l <"$work/many") < $1; ++i)); do
    ((i < 600)) || fail "no $1 answers: $(wc -l <"$work/many")"
    sleep 0.1
  done
  resident=$(awk '/^VmRSS:/ { print $2 }' "/proc/$server_id/status")
}
awk 'BEGIN { while (i++ < 20000) print "/nowhere.pgm" }' >&"$input"
answered 20000
before=$resident
awk 'BEGIN { while (i++ < 200000) print "/nowhere.pgm" }' >&"$input"
answered 220000
exec {input}>&-
wait "$server_id"
echo "$before kB, and $resident kB after 200,000 further requests"
((resident - before < 800)) || fail "memory grows with the requests"
grep -q '^220000 requests, 220000 failed, 4 threads' "$work/statistics"

# It stops at the first answer that it cannot write, though the input goes on.
for closed in no yes; do
  if [[ $closed == yes ]]; then
    coproc timeout 60 "$server" "$deploy" "$lenet" >&- 2>"$work/stopped"
  else
    coproc timeout 60 "$server" "$deploy" "$lenet" >/dev/full 2>"$work/stopped"
  fi
  server_id=$COPROC_PID status=0
  exec {input}>&"${COPROC[1]}"-
  echo "$work/pgm/000.pgm" >&"$input"
  wait "$server_id" || status=$?
  exec {input}>&-
  ((status == 1)) || fail "status $status instead of 1 (124: it went on)"
  [[ $(cat "$work/stopped") == "server: cannot write to standard output; is the disk full?" ]] || fail "it says $(cat "$work/stopped")"
done

usage="usage: server deploy.prototxt weights.caffemodel [threads]"
refused "$server" -- "$usage"
refused "$server" "$deploy" "$lenet" 4 4 -- "$usage"
for threads in 0 -1 four 4x 1000; do
  refused "$server" "$deploy" "$lenet" $threads -- "'$threads' is no number of threads from 1 to 999" "$usage"
done
refused "$server" "$deploy" /nowhere.caffemodel -- "/nowhere.caffemodel"
refused "$server" /nowhere.prototxt "$lenet" -- "/nowhere.prototxt"
sed 's/name: "ip2"/name: "ip2_fashion"/' "$deploy" >"$work/other.prototxt"
refused "$server" "$work/other.prototxt" "$lenet" -- "has no weights for ip2_fashion of '$work/other.prototxt'"
refused "$server" "$work/train_val.prototxt" "$lenet" -- "'$work/train_val.prototxt' has no input; give a deploy.prototxt"
net "1 3 28 28" "Softmax prob"
refused "$server" "$work/net.prototxt" "$lenet" -- "input 'data' of '$work/net.prototxt' is 1x3x28x28; grey images are N x 1 x H x W"
net "1 1 28 28" Silence
refused "$server" "$work/net.prototxt" "$lenet" -- "'$work/net.prototxt' has no output; give a deploy.prototxt"
serve() {
  "$server" "$deploy" "$lenet" <"$work/requests"
}
refused to_full_disk serve -- "cannot write to standard output"
