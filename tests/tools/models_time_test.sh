#!/usr/bin/env bash
# `crema time` runs every net for inference in models/, at its full size.
#   models_time_test.sh SOURCE_DIR SHARED_DIR [slow]   (slow: the nets that take seconds each, in place of all others)
set -euo pipefail
slow_nets=" fcn8s resnet101 rfcn_resnet50 ssd300_vgg unet vgg16 vgg19 "
# Under the sanitizers the large nets take minutes, and run the same code as the small ones.
! grep -q '^CREMA_SANITIZE:STRING=.' "$CREMA_BUILD_DIR/CMakeCache.txt" || { echo "skipped: too slow under the sanitizers"; exit 77; }
crema=$CREMA_BUILD_DIR/bin/crema
cd "$1"
for name in $slow_nets; do
  [[ -e models/$name/deploy.prototxt ]] || { echo "there is no models/$name"; exit 1; }
done
for net in models/*/*deploy.prototxt; do
  name=${net#models/}
  kind=
  [[ $slow_nets != *" ${name%%/*} "* ]] || kind=slow
  [[ $kind == "${3-}" ]] || continue
  flags=()
  [[ $net != models/rfcn_resnet50/* ]] || flags=(--stage timing)  # has values for an input that zeros would make empty
  said=$("$crema" time --tune=false --tuning_file= --phase TEST --iterations 1 --model "$net" "${flags[@]}" 2>&1) ||
    { printf '%s: %s\n' "$net" "$said"; exit 1; }
  line=$(grep 'forward .* ms, backward' <<<"$said") || { printf '%s: no times: %s\n' "$net" "$said"; exit 1; }
  printf '%s\n' "$line"
done
