#!/usr/bin/env bash
# Makes the databases of PASCAL VOC that the detectors of models/ read, from the archives of 2007 and 2012.
#
#   data/voc/make.sh VOCDEVKIT [FOLDER]   FOLDER: where to put the files; default data/voc/full
#
# VOCDEVKIT is the folder that these three archives of the PASCAL VOC site unpack to:
#   VOCtrainval_06-Nov-2007.tar  VOCtest_06-Nov-2007.tar  VOCtrainval_11-May-2012.tar
#
# FOLDER gets
#   trainval_lmdb   the trainval parts of 2007 and 2012, 16,551 images
#   test_lmdb       the test part of 2007, 4,952 images
#   trainval.txt, test.txt                the lists that they are made from: the places of images and boxes in VOCDEVKIT
#
# A file or database appears under its name when it is whole. A database that is there is not made again.
# CREMA in the environment names the program; default build/release/bin/crema of this tree, then the one on the PATH.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

die() {
  printf 'make.sh: error: %s\n' "$*" >&2
  exit 1
}

case ${1-} in
  -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  '') die "name the folder VOCdevkit: data/voc/make.sh VOCDEVKIT [FOLDER]" ;;
  -*) die "unknown option $1; usage: data/voc/make.sh VOCDEVKIT [FOLDER]" ;;
esac
(($# <= 2)) || die "too many arguments; usage: data/voc/make.sh VOCDEVKIT [FOLDER]"
devkit=${1%/} folder=${2:-$here/full}

if [[ -n ${CREMA-} ]]; then
  program=$(type -P -- "$CREMA") || die "CREMA=$CREMA is no program"
else
  program=$(type -P "$here/../../build/release/bin/crema") || program=$(type -P crema) ||
    die "build/release/bin/crema is not there: cmake --preset release && cmake --build --preset release; or name it in CREMA"
fi

[[ -d $devkit ]] || die "the folder '$devkit' is not there"
[[ -d $devkit/VOC2007 || ! -d $devkit/VOCdevkit ]] || die "'$devkit' has the folder VOCdevkit; name $devkit/VOCdevkit"

# What is missing of the part $2 of the year $1, which the archive $3 holds.
missing=()
need() {
  local path
  for path in "VOC$1/ImageSets/Main/$2.txt" "VOC$1/JPEGImages" "VOC$1/Annotations"; do
    [[ -e $devkit/$path ]] || missing+=("$path (of $3)")
  done
}
need 2007 trainval VOCtrainval_06-Nov-2007.tar
need 2007 test VOCtest_06-Nov-2007.tar
need 2012 trainval VOCtrainval_11-May-2012.tar
((${#missing[@]} == 0)) ||
  die "'$devkit' lacks these; unpack the archives in one place, so that they share a folder VOCdevkit"$'\n'"$(
    printf '  %s\n' "${missing[@]}"
  )"

mkdir -p -- "$folder" || die "cannot make the folder $folder"

# Lines "image boxes" of the part $2 of the year $1. Lists may have ends of lines of Windows.
lines() {
  awk -v year="VOC$1" '
    { sub(/\r$/, "") }
    NF { printf "%s/JPEGImages/%s.jpg %s/Annotations/%s.xml\n", year, $1, year, $1 }
  ' "$devkit/VOC$1/ImageSets/Main/$2.txt"
}

# Writes $folder/$1.txt, the list of the parts YEAR/PART that follow, and makes the database $1_lmdb of it.
make() {
  local list=$folder/$1.txt database=$folder/$1_lmdb part
  shift
  : >"$list.part"
  for part; do lines "${part%/*}" "${part#*/}" >>"$list.part"; done
  [[ -s $list.part ]] || die "the lists of '$devkit' for $list have no images"
  if [[ -e $database ]]; then
    if ! cmp -s -- "$list.part" "$list"; then
      rm -- "$list.part"
      die "$database is there, but $list is not the list of '$devkit'; remove $database to make it anew"
    fi
    rm -- "$list.part"
    printf '%s is there already.\n' "$database"
    return
  fi
  mv -- "$list.part" "$list"
  printf '%s: %d images\n' "$list" "$(wc -l <"$list")"
  "$program" convert-annotations --label_map_file="$here/labelmap.prototxt" --encoded "$devkit/" "$list" "$database"
}

make trainval 2007/trainval 2012/trainval
make test 2007/test
