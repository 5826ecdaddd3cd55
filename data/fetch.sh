# Sourced by the get.sh of each data set: puts verified files into a folder, from a local copy or from
# mirrors. A file appears under its own name only when complete and correct; until then it is
# NAME.part, from which an interrupted download continues.
#
# The caller sets
#   FETCH_MIRRORS  an array of base URLs, tried in order
#   FETCH_MD5_OF   "file", or "content" when the checksums are of the uncompressed data
# and calls fetch_begin, which sets
#   FETCH_NAME     the folder of this set below CREMA_DATA_DIR
#   FETCH_DIR      the folder to fill
#   FETCH_LOCAL    a folder that may hold the files already, or empty
#
# CREMA_OFFLINE in the environment forbids downloads: a file that has to be fetched is an error.

fetch_say() { printf '%s\n' "$*"; }

fetch_die() {
  printf '%s: error: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# Begins get.sh for the set $1, whose mirrors the user may name in the variable $2; '' for a set without mirrors. What
# follows are the arguments of get.sh: [DIR], or --help for the comment at its head.
fetch_begin() {
  local mirrors=''
  [[ -z $2 ]] || mirrors=${!2-}
  case ${3-} in
    -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) fetch_die "unknown option $3; usage: get.sh [DIR]" ;;
  esac
  (($# <= 3)) || fetch_die "too many arguments: '$4'; usage: get.sh [DIR]"
  FETCH_NAME=$1
  FETCH_DIR=${3:-$(cd -- "$(dirname -- "$0")" && pwd)/full}
  FETCH_LOCAL=${CREMA_DATA_DIR:+$CREMA_DATA_DIR/$FETCH_NAME}
  if [[ -n $mirrors ]]; then read -r -a FETCH_MIRRORS <<< "$mirrors"; fi
}

# The lower-case md5 of $1, or of what it unpacks to; "not-gzip" for a file that does not unpack.
fetch_md5() {
  if [[ $FETCH_MD5_OF == content ]]; then
    gzip -t -- "$1" 2>/dev/null || { echo not-gzip; return; }
    gzip -dc -- "$1" | md5sum | cut -d' ' -f1
  else
    md5sum < "$1" | cut -d' ' -f1
  fi
}

# Downloads URL $1 to $2, continuing when $2 exists. Returns 2 when the server answered with a refusal.
fetch_url() {
  local status=0
  if command -v curl >/dev/null; then
    curl --fail --location --silent --show-error --connect-timeout 15 --speed-limit 1000 --speed-time 30 \
      --retry 2 --continue-at - --output "$2" -- "$1" || status=$?
    case $status in 22 | 33 | 36) status=2 ;; esac
  elif command -v wget >/dev/null; then
    wget --no-verbose --timeout=30 --tries=3 --continue --output-document="$2" -- "$1" || status=$?
    case $status in 8) status=2 ;; esac
  else
    fetch_die "neither curl nor wget is installed; install one (apt install curl)"
  fi
  return $status
}

# Unpacks the Debian package $1 into the folder $2, which apt's own unprivileged user has to reach; needs
# neither root nor a change to the system. Fails where there is no such package.
fetch_debian_package() {
  [[ -z ${CREMA_OFFLINE-} ]] || return 1
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  fetch_say "$FETCH_DIR: fetching Debian's package $1"
  chmod 755 "$2"
  (cd -- "$2" && apt-get download -qq "$1") 2>/dev/null || return 1
  dpkg-deb -x "$2/$1"_*.deb "$2"
}

# Downloads URL $1 to $2 and verifies md5 $3; on failure says why in fetch_why.
fetch_verified() {
  local continued=no status=0 got
  [[ -s $2 ]] && continued=yes
  fetch_url "$1" "$2" || status=$?
  if ((status == 0)); then
    got=$(fetch_md5 "$2")
    [[ $got == "$3" ]] && return
    fetch_why="wrong checksum: md5 is $got, expected $3"
    rm -f -- "$2"
  else
    fetch_why="download failed"
    # Out of reach is no reason to lose what is there already.
    ((status == 2)) || return 1
  fi
  # The old part may be what was wrong or too long: once more from nothing.
  [[ $continued == yes ]] || return 1
  rm -f -- "$2"
  fetch_verified "$@"
}

# Makes $1/NAME of the folder $1 our NAME, by copy. A wrong checksum is the user's to solve: the
# folder was named on purpose, so nothing else is put in its place.
fetch_copy() {
  local from=$1 name=$2 md5=$3 got
  got=$(fetch_md5 "$from/$name")
  [[ $got == "$md5" ]] || fetch_die "$from/$name: wrong checksum: md5 is $got, expected $md5" \
    "(of the ${FETCH_MD5_OF}); replace that file, or remove it to download a good one"
  cp -- "$from/$name" "$FETCH_DIR/$name.part"
  chmod u+w "$FETCH_DIR/$name.part"
  mv -f -- "$FETCH_DIR/$name.part" "$FETCH_DIR/$name"
  fetch_say "$FETCH_DIR/$name: copied from $from"
}

# Ensures $FETCH_DIR/NAME, whose md5 is known. Does nothing when it is there and correct.
fetch_file() {
  local name=$1 md5=$2 target=$FETCH_DIR/$1 part=$FETCH_DIR/$1.part mirror tried=()
  mkdir -p -- "$FETCH_DIR" || fetch_die "cannot make the folder $FETCH_DIR"
  if [[ -f $target && $(fetch_md5 "$target") == "$md5" ]]; then
    fetch_say "$target: already there"
    return
  fi
  if [[ -n $FETCH_LOCAL && -f $FETCH_LOCAL/$name ]]; then
    fetch_copy "$FETCH_LOCAL" "$name" "$md5"
    return
  fi
  [[ -z ${CREMA_OFFLINE-} ]] || fetch_die "$name would have to be fetched, and CREMA_OFFLINE is set. Put the file into" \
    "a folder DIR/$FETCH_NAME and run again with CREMA_DATA_DIR=DIR, or unset CREMA_OFFLINE"
  for mirror in "${FETCH_MIRRORS[@]}"; do
    fetch_say "$target: downloading from ${mirror%/}"
    if fetch_verified "${mirror%/}/$name" "$part" "$md5"; then
      mv -f -- "$part" "$target"
      return
    fi
    tried+=("${mirror%/}: $fetch_why")
  done
  fetch_die "could not get $name"$'\n'"$(printf '  %s\n' "${tried[@]}")"$'\n'"  Put the file into a folder" \
    "DIR/${FETCH_NAME} yourself and run again with CREMA_DATA_DIR=DIR."
}
