#!/usr/bin/env bash
# scripts/check_kernels reads the tables of cuobjdump, for which a script stands here, and fails for kernels that
# spill or have all registers.
set -euo pipefail
source_dir=$1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
touch "$work/plain.o" "$work/spills.o" "$work/full.o" "$work/foreign.o"

# cuobjdump -res-usage FILE, or -sass -fun NAMES FILE.
cat > "$work/cuobjdump" <<'END'
#!/usr/bin/env bash
kernel() {
  echo "Fatbin elf code:"
  echo "arch = sm_80"
  echo " Function $1:"
  echo "  REG:$2 STACK:$3 SHARED:$4 LOCAL:0 CONSTANT[0]:400 TEXTURE:0 SURFACE:0 SAMPLER:0"
}
file=${*: -1}
if [[ $1 == -sass ]]; then
  [[ $3 == *_ZN5crema* ]] || exit 1
  echo "arch = sm_80"
  echo "		Function : _ZN5crema4hardEv"
  echo "        /*0010*/                   STL [R1+0x10], R2 ;"
  # An array with an index: no spill.
  echo "        /*0020*/                   LDL.64 R2, [R6+0x40] ;"
  [[ $file != *spills.o ]] || echo "        /*0030*/                   LDL.LU R0, [R1+0x14] ;"
  exit 0
fi
case $file in
  *plain.o) kernel _ZN5crema4softEv 32 0 1024; kernel _ZN5crema4hardEv 80 24 0 ;;
  *spills.o) kernel _ZN5crema4hardEv 80 24 0 ;;
  *full.o) kernel _ZN5crema4fullEv 255 0 0 ;;
  *foreign.o) kernel _ZN7another4fullEv 255 64 0 ;;
esac
END
chmod +x "$work/cuobjdump"
export CUOBJDUMP=$work/cuobjdump

# says STATUS WORDS ARGUMENT...: check_kernels ends with the status and says the words.
says() {
  local status=$1 words=$2 output found=0
  shift 2
  output=$(cd "$work" && "$source_dir/scripts/check_kernels" "$@" 2>&1) || found=$?
  if [[ $found != "$status" || $output != *"$words"* ]]; then
    echo "check_kernels $*: status $found, not $status, or no '$words' in: $output"
    exit 1
  fi
}
says 0 "sm_80: 2 kernels; with up to 32 registers 1, 40 registers 0, 64 registers 0, 128 registers 1" plain.o
# 32 registers leave room for all 64 warps, 80 for 24.
says 0 "  32    64    1024      0              soft" plain.o
says 0 "  80    24       0     24     1     1  hard" --spills plain.o
says 1 "hard spills: 1 loads, 24 bytes" --spills plain.o spills.o
says 1 "full has 255 registers" plain.o full.o
says 1 "no kernel of Crema" foreign.o
says 1 "there is no nothing.o" nothing.o
unset CUOBJDUMP
mkdir "$work/bin"
# Not what may be a script that chooses a Python.
ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$work/bin/python3"
ln -s "$(command -v env)" "$work/bin/env"
PATH=$work/bin says 77 "cuobjdump is missing" plain.o
