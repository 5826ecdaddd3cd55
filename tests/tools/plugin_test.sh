#!/usr/bin/env bash
# models/plugin_example is built against an installed copy of Crema, trained in a net by `crema train
# --plugin`, and loaded by a program that embeds Crema. Plug-ins that cannot be loaded are fails_with with a
# message.
#   plugin_test.sh SOURCE_DIR SHARED_DIR   (CREMA_BUILD_DIR names the build to install)
# shellcheck source=tests/tools/installed.sh
. "${BASH_SOURCE[0]%/*}/installed.sh"
build_against "$source_dir/models/plugin_example" example
build_against "$source_dir/tests/tools/plugin" others
plugin=$work/example/libplugin_example.so

# Trained on the digits that ship, with the layer's settings in the net.
mkdir "$work/digits"
cp "$source_dir"/data/mnist/mini/*.gz "$work/digits"
"$crema" convert-mnist "$work/digits" 2>"$work/convert.log"
sed "s#data/mnist/mini/#$work/digits/#" "$source_dir/models/plugin_example/train_val.prototxt" \
  >"$work/train_val.prototxt"
sed -e "s#models/plugin_example/train_val#$work/train_val#" -e "s#models/plugin_example/#$work/#" \
  "$source_dir/models/plugin_example/solver.prototxt" >"$work/solver.prototxt"
shown_if_failed train.log "$crema" train --plugin "$plugin" --solver="$work/solver.prototxt"
grep -q 'Plug-in plugin_example brings Softsign' "$work/train.log"
accuracy=$(sed -n 's/.*accuracy = //p' "$work/train.log" | tail -n 1)
echo "accuracy $accuracy"
awk -v accuracy="$accuracy" 'BEGIN { exit !(accuracy > 0.9) }'
shown_if_failed test.log "$crema" test --plugin="$plugin" --model="$work/train_val.prototxt" --iterations=10 \
  --weights="$work/plugin_example_iter_1000.caffemodel"

summary=("$crema" summary --model="$work/train_val.prototxt")
fails_with "${summary[@]}" -- "nothing brings [plugin_example.softsign_param]" "--plugin=FILE"
sed 's/\[plugin_example.*}$//' "$work/train_val.prototxt" >"$work/no_settings.prototxt"
fails_with "$crema" summary --model="$work/no_settings.prototxt" -- "there is no layer type 'Softsign'" "--plugin=FILE"
sed 's/limit: 2/limit: -2/' "$work/train_val.prototxt" >"$work/wrong.prototxt"
fails_with "$crema" summary --plugin="$plugin" --model="$work/wrong.prototxt" -- \
  "layer 'soft1' (Softsign)" "limit is -2"
refuse_text() {  # text for the settings of the layers, and what has to be said of it
  sed "s/\[plugin_example.*}$/$1/" "$work/train_val.prototxt" >"$work/wrong.prototxt"
  fails_with "$crema" summary --plugin="$plugin" --model="$work/wrong.prototxt" -- "$2"
}
for name in softsign_param plugin_example.softsin_param; do
  refuse_text "[$name] { limit: 2 }" "did you mean [plugin_example.softsign_param]?"
done
refuse_text "[plugin_example.softsign_param] { limt: 2 }" "did you mean 'limit'?"
refuse_text "[plugin_example.softsign_param] { height: 2 }" "it has the field limit"

# Files that are no plug-ins, or not for this Crema.
fails_with "${summary[@]}" --plugin=/nowhere/libmine.so -- "there is no plug-in '/nowhere/libmine.so'"
fails_with "${summary[@]}" --plugin="$work" -- "is no file"
fails_with "${summary[@]}" --plugin="$work/train_val.prototxt" -- "is not a plug-in of Crema" "crema_add_plugin"
fails_with "${summary[@]}" --plugin="$crema" -- "is not a plug-in of Crema"
version=$(sed -n 's/.*CREMA_PLUGIN_ABI "\([^ ]*\) .*/\1/p' "$installed/include/crema/authors/crema/plugin_abi.hpp")
other=${version%.*}.$((9 - ${version##*.}))
LC_ALL=C sed "s/${version//./\\.} (/$other (/" "$plugin" >"$work/libother.so"
fails_with "${summary[@]}" --plugin="$work/libother.so" -- "was built against Crema $other" "this is $version"
head -c 20000 "$plugin" >"$work/libcut.so"
fails_with "${summary[@]}" --plugin="$work/libcut.so" -- "libcut.so"

# Plug-ins that clash, with Crema or with one that is loaded: the flag is given twice, or has a list.
cp "$plugin" "$work/libcopy.so"
fails_with "${summary[@]}" --plugin="$plugin" --plugin="$work/libcopy.so" -- "'plugin_example' is loaded already"
fails_with "${summary[@]}" --plugin="$work/others/libclash_type.so" -- \
  "libclash_type.so': layer type 'ReLU' is registered already"
fails_with "${summary[@]}" --plugin="$plugin,$work/others/libclash_number.so" -- \
  "[clash_number.settings] has number 20000 of LayerParameter" "[plugin_example.softsign_param]"
fails_with "${summary[@]}" --plugin "$plugin" --plugin "$work/others/libclash_message.so" -- \
  "it declares plugin_example.SoftsignParameter" "plugin_example/softsign.proto"
"${summary[@]}" --plugin="$work/others/libclash_number.so" >"$work/alone.log" 2>&1 && exit 1
grep -q 'Plug-in clash_number brings Clash_number' "$work/alone.log"

# A program that embeds Crema.
cat >"$work/net.prototxt" <<'NET'
force_backward: true
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 19 } } }
layer { name: "y" type: "Softsign" bottom: "x" top: "y" [plugin_example.softsign_param] { limit: 0.25 } }
NET
lines=$("$work/others/host" "$plugin" "$work/net.prototxt")
[[ $lines == $'plugin_example: Softsign\n0.2 0.2\n0.04 0.04' ]] || fail "$lines"
if [[ -e $(find "$installed" -name libcrema.a) ]]; then
  fails_with "$work/others/plain_host" "$plugin" -- "crema_plugin_host(TARGET)"

  # Without CMake.
  pc=$(find "$installed" -name crema.pc)
  export PKG_CONFIG_PATH=${pc%/*}
  # shellcheck disable=SC2046  # words are meant
  "${CXX:-c++}" -std=c++20 "$source_dir/tests/tools/plugin/host.cpp" -o "$work/by_pkg_config" -rdynamic \
    $(pkg-config --cflags crema) -L"$(pkg-config --variable=libdir crema)" \
    -Wl,--whole-archive -lcrema -Wl,--no-whole-archive $(pkg-config --libs crema)
  [[ $("$work/by_pkg_config" "$plugin" "$work/net.prototxt") == "$lines" ]]
fi
