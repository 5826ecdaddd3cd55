#!/usr/bin/env bash
# Gets a text of 4.4 million characters, the King James Version of the Bible (1611, free of copyright):
# bible.txt, a verse a line, behind its place.
#
#   data/text/get.sh [DIR]   DIR: where to put the file; default data/text/full
#
# CREMA_DATA_DIR  when set, $CREMA_DATA_DIR/text/bible.txt is used first
#
# Else the text is that of the Debian package bible-kjv-text, as installed or fetched with apt-get (2.4 MB;
# nothing is installed). The package holds it in blocks that compress has packed; python3 and gzip unpack
# them. The text is verified.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/../fetch.sh"

FETCH_MD5_OF="file"
FETCH_MIRRORS=()
fetch_begin text '' "$@"

readonly package=bible-kjv-text
readonly packed=usr/lib/bible.data
readonly text_md5=8f8417fabe6cd377d89cfa08b888638c

# Writes the text of the file $1 to $2. The head of the file has, as numbers of 32 bits with the highest byte
# first, from byte 84 on: the size of an unpacked block, the number of blocks, the place of each, the end. Each
# block lacks the first three bytes of a file of compress.
unpack_text() {
  python3 - "$1" "$2" <<'PYTHON'
import struct
import subprocess
import sys

data = open(sys.argv[1], "rb").read()
blocks, = struct.unpack_from(">I", data, 88)
places = struct.unpack_from(f">{blocks + 1}I", data, 92)
with open(sys.argv[2], "wb") as text:
    for begin, end in zip(places, places[1:]):
        packed = b"\x1f\x9d\x90" + data[begin:end]
        text.write(subprocess.run(["gzip", "-dc"], input=packed, capture_output=True, check=True).stdout)
PYTHON
}

have_text() { [[ -f $FETCH_DIR/bible.txt && $(fetch_md5 "$FETCH_DIR/bible.txt") == "$text_md5" ]]; }

if ! have_text && [[ -z $FETCH_LOCAL || ! -f $FETCH_LOCAL/bible.txt ]]; then
  scratch=$(mktemp -d)
  trap 'rm -rf -- "$scratch"' EXIT
  from=/$packed
  if [[ ! -f $from ]]; then
    fetch_debian_package $package "$scratch" ||
      fetch_die "the text comes from Debian's package $package, which is not installed and cannot be fetched here" \
        "${CREMA_OFFLINE:+because CREMA_OFFLINE is set }(apt install $package, perhaps after apt update). Or put bible.txt" \
        "into a folder DIR/text and run again with CREMA_DATA_DIR=DIR"
    from=$scratch/$packed
  fi
  unpack_text "$from" "$scratch/bible.txt" || fetch_die "cannot unpack $from; this needs python3 and gzip"
  FETCH_LOCAL=$scratch
fi

fetch_file bible.txt "$text_md5"
