#!/usr/bin/env bash
# scripts/check_passes finds each kind of defect in objects of g++, some of which stand for those of nvcc.
set -euo pipefail
source_dir=$1
command -v nm >/dev/null || { echo 'skipped: needs nm; on Debian and Ubuntu: apt install binutils'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# compiled NAME: the object NAME.o of the text on standard input, behind the declarations that all need.
compiled() {
  {
    cat <<'CODE'
namespace crema {
struct ComputeDevice {};
void require_host(const ComputeDevice&);
template <class Layer> struct TwoSided {
  virtual ~TwoSided() = default;
  virtual void run_forward(ComputeDevice device) { Layer::pass(device); }
};
struct Norm { static void pass(ComputeDevice) {} };
}
CODE
    cat
  } >"$work/$1.cpp"
  "${CXX:-c++}" -std=c++20 -O0 -c "$work/$1.cpp" -o "$work/$1.o"
}
# Kernels are registered by a function of the runtime, which each object of nvcc calls.
compiled by_nvcc <<'CODE'
extern "C" void __cudaRegisterFatBinary();
void start() { __cudaRegisterFatBinary(); }
void use(crema::TwoSided<crema::Norm>& layer) { layer.run_forward({}); }
crema::TwoSided<crema::Norm>* made() { return new crema::TwoSided<crema::Norm>; }
CODE
compiled plain <<'CODE'
int plain() { return 1; }
CODE
compiled copy <<'CODE'
crema::TwoSided<crema::Norm>* another() { return new crema::TwoSided<crema::Norm>; }
CODE
compiled loops <<'CODE'
void loops() { crema::require_host({}); }
CODE

# says STATUS WORDS OBJECT...: check_passes of these objects ends with the status and says the words.
says() {
  local status=$1 words=$2 found=0 output
  shift 2
  output=$(cd "$work" && "$source_dir/scripts/check_passes" "$@" 2>&1) || found=$?
  [[ $found == "$status" && $output == *"$words"* ]] ||
    { echo "check_passes $*: status $found, not $status, or no '$words' in: $output"; exit 1; }
}
says 0 '1 objects by nvcc, 1 by g++, 0 findings' by_nvcc.o plain.o
says 1 'two copies of crema::TwoSided<crema::Norm>::run_forward' by_nvcc.o plain.o copy.o
says 1 'by g++:  copy.o' by_nvcc.o copy.o
says 1 'loops of passes by g++: loops.o' by_nvcc.o loops.o
says 1 '0 objects by nvcc' plain.o
says 1 'nm cannot read' by_nvcc.o loops.cpp
printf '%s\n' by_nvcc.o loops.o >"$work/list"
says 1 '1 findings' @list
