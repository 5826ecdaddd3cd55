#!/usr/bin/env bash
# data/voc/make.sh makes the databases of a VOCdevkit of three tiny images, which models/ssd300_vgg reads, and refuses one
# that is not whole.
#   voc_test.sh SOURCE_DIR SHARED_DIR   (CREMA_BUILD_DIR names the build)
set -euo pipefail
source_dir=$1
build_dir=${CREMA_BUILD_DIR:?names the build folder}
for option in CREMA_OPENCV CREMA_ANNOTATIONS; do
  if grep -q "^$option:BOOL=OFF" "$build_dir/CMakeCache.txt"; then
    echo "skipped: needs a build with $option"
    exit 77
  fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CREMA=$build_dir/bin/crema

fail() {
  echo "$*"
  exit 1
}

# refused WORDS... -- ARGUMENTS...: make.sh ends with status 1 and a message that has all words.
refused() {
  local words=() status=0 output
  while [[ $1 != -- ]]; do words+=("$1"); shift; done
  shift
  output=$("$source_dir/data/voc/make.sh" "$@" 2>&1) || status=$?
  ((status == 1)) || fail "status $status instead of 1: make.sh $*: $output"
  for word in "${words[@]}"; do
    [[ $output == *"$word"* ]] || fail "no '$word' in: $output"
  done
}

# The image $2 of the part $3 of the year $1, 16x12, with a dog in a box.
add_image() {
  local year=$work/photos/VOCdevkit/VOC$1
  mkdir -p "$year/JPEGImages" "$year/Annotations" "$year/ImageSets/Main"
  cp "$work"/jpeg/*.jpg "$year/JPEGImages/$2.jpg"
  cat >"$year/Annotations/$2.xml" <<XML
<annotation><filename>$2.jpg</filename><size><width>16</width><height>12</height><depth>3</depth></size>
<object><name>dog</name><difficult>0</difficult>
<bndbox><xmin>2</xmin><ymin>3</ymin><xmax>9</xmax><ymax>10</ymax></bndbox></object>
</annotation>
XML
  printf '%s\r\n' "$2" >>"$year/ImageSets/Main/$3.txt"
}

# A JPEG file.
mkdir "$work/picture"
{ printf 'P6\n16 12\n255\n'; head -c 576 /dev/zero | tr '\0' d; } >"$work/picture/0.ppm"
echo "0.ppm 0" >"$work/picture/list.txt"
{
  "$CREMA" convert-imageset --encode_type=jpg "$work/picture/" "$work/picture/list.txt" "$work/picture/lmdb"
  "$CREMA" db export "$work/picture/lmdb" "$work/jpeg"
} 2>"$work/log" || { cat "$work/log"; exit 1; }

devkit=$work/photos/VOCdevkit
add_image 2007 000001 trainval
refused "is not there" /nowhere -- /nowhere
refused "name the folder VOCdevkit" --
refused "name $devkit" -- "$work/photos" "$work/full"
refused VOC2007/ImageSets/Main/test.txt VOC2012/JPEGImages VOCtrainval_11-May-2012.tar -- "$devkit" "$work/full"
[[ ! -e $work/full ]] || fail "a devkit that is not whole leaves files"
add_image 2007 000002 test
add_image 2012 2008_000003 trainval

# An annotation that is cut off leaves no database.
annotation=$devkit/VOC2012/Annotations/2008_000003.xml
mv "$annotation" "$work/whole.xml"
head -c 100 "$work/whole.xml" >"$annotation"
refused 2008_000003.xml -- "$devkit" "$work/full"
[[ ! -e $work/full/trainval_lmdb && ! -e $work/full/test_lmdb ]] || fail "a database of a file that is cut off"
mv "$work/whole.xml" "$annotation"

make() {
  (cd "$work/photos" && "$source_dir/data/voc/make.sh" VOCdevkit ../full) >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
}
make
diff "$work/full/trainval.txt" - <<'LIST'
VOC2007/JPEGImages/000001.jpg VOC2007/Annotations/000001.xml
VOC2012/JPEGImages/2008_000003.jpg VOC2012/Annotations/2008_000003.xml
LIST
"$CREMA" db list "$work/full/trainval_lmdb" >"$work/list"
(($(grep -c '1 box.*3x12x16.*jpg$' "$work/list") == 2)) || fail "trainval_lmdb: $(cat "$work/list")"
"$CREMA" db show --label_map_file="$source_dir/data/voc/labelmap.prototxt" "$work/full/test_lmdb" >"$work/show"
grep -q dog "$work/show" || fail "no dog in test_lmdb: $(cat "$work/show")"

# Again: nothing is made anew.
make
(($(grep -c 'is there already' "$work/out") == 2)) || fail "a second run says: $(cat "$work/out")"
# Another devkit does not pass for this one.
add_image 2007 000001 test
refused "remove $work/full/test_lmdb" -- "$devkit" "$work/full"
[[ -z $(find "$work/full" -name '*.part') ]] || fail "parts are left: $(ls "$work/full")"
