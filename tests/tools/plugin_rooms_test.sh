#!/usr/bin/env bash
# Rooms of layers/ are built as a plug-in against an installed copy of Crema, and train a net as the layers of
# Crema do. All headers that any room includes are in that copy.
#   plugin_rooms_test.sh SOURCE_DIR SHARED_DIR   (CREMA_BUILD_DIR names the build to install)
# shellcheck source=tests/tools/installed.sh
. "${BASH_SOURCE[0]%/*}/installed.sh"

# What only builds with CUDA or oneDNN compile is installed with CUDA, or not at all.
include=$installed/include
find "$source_dir/layers" -name '*.?pp' ! -name '*_onednn.cpp' ! -name '*_cudnn.cpp' >"$work/sources"
find "$include" -name '*.hpp' >>"$work/sources"
missing=0
while read -r header; do
  [[ $header == backend/cuda/* || -e $include/$header || -e $include/crema/authors/$header ]] && continue
  echo "not installed: $header"
  missing=1
done < <(xargs -a "$work/sources" sed -n 's/^#include "\(.*\)"$/\1/p' | sort -u)
((missing == 0))

# Their messages are in Crema already, and so are their types under the names that they have there.
mkdir "$work/layers"
for room in inner_product:InnerProduct batch_norm:BatchNorm sigmoid:Sigmoid concat:Concat softmax:Softmax; do
  name=${room%:*} type=${room#*:}
  cp -r "$source_dir/layers/$name" "$work/layers"
  rm -f "$work/layers/$name"/*.proto
  sed -i -e "s/\"$type\"/\"Plugin$type\"/" -e "s/, \"BN\"//" "$work/layers/$name"/*.?pp
done
# What plug-ins are compiled with where their project says nothing is plugin_test's: kernels take long with it.
build_against "$source_dir/tests/tools/plugin_rooms" build -DROOMS="$work/layers" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG"

# The last loss of a training run.
loss_of() {
  "$crema" train --solver=solver.prototxt "$@" 2>"$work/train.log" || { cat "$work/train.log" >&2; exit 1; }
  sed -n 's/.*loss = \([^ ]*\).*/\1/p' "$work/train.log" | tail -n 1
}
cp "$source_dir"/tests/tools/plugin_rooms/*.prototxt "$work"
cd "$work"
of_plugin=$(loss_of --plugin=build/libplugin_rooms.so)
grep -q 'Plug-in plugin_rooms brings PluginBatchNorm, PluginConcat, PluginInnerProduct, PluginSigmoid, PluginSoftmax' \
  train.log || { cat train.log; exit 1; }
sed -i 's/"Plugin\([A-Za-z]*\)"/"\1"/' train.prototxt
of_crema=$(loss_of)
echo "loss $of_plugin with the plug-in, $of_crema without"
# Which kernels are fastest may differ, and with them the last digits.
awk -v a="$of_plugin" -v b="$of_crema" 'BEGIN { exit !(a > 0 && a < 0.5 && a - b < 1e-3 && b - a < 1e-3) }'
