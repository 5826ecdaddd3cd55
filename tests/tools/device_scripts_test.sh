#!/usr/bin/env bash
# scripts/device-bundle packs a build so that its program starts where nothing else is, and scripts/device-check says of each
# part what became of it, on a machine without a GPU too.
#   device_scripts_test.sh SOURCE_DIR SHARED_DIR   (CREMA_BUILD_DIR names the build)
set -euo pipefail
source_dir=$1
for program in python3 xz ldd strip; do
  command -v $program >/dev/null || { echo "skipped: needs $program"; exit 77; }
done
# A small program with libraries, one of them that of another.
protoc=$(sed -n 's/^Protobuf_PROTOC_EXECUTABLE:FILEPATH=//p' "$CREMA_BUILD_DIR/CMakeCache.txt")
[[ -x $protoc ]] || protoc=$(command -v protoc) || { echo "skipped: needs protoc"; exit 77; }
libraries=$(ldd "$protoc" | sed -n 's|^[[:space:]]*\([^ ]*\) => /.*|\1|p')
[[ $libraries == *libprotobuf* ]] || { echo "skipped: protoc is linked statically"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "$*"
  exit 1
}
says() { grep -qF -- "$1" "$work/said" || { cat "$work/said"; fail "does not say: $1"; }; }

# --- device-bundle
bundle() { "$source_dir/scripts/device-bundle" "$@" >"$work/said" 2>&1; }
mkdir -p "$work/build/bin" "$work/small/bin"
cp /bin/true "$work/small/bin/crema"
! bundle --build "$work/small" --limit 0 --level 0 "$work/none.tar.xz" || fail "a file above the limit"
says "of the 0 MiB of --limit; nothing was written"
[[ ! -e $work/none.tar.xz ]] || fail "a file above the limit was written"
! bundle --build "$work/nowhere" || fail "a build that is not there"
says "there is no $work/nowhere/bin/crema"
! bundle --nosuch || fail "takes --nosuch"
# In the place of the program, whose hundred libraries take minutes to pack.
cp -L "$protoc" "$work/build/bin/crema"
bundle --build "$work/build" --limit 60 --level 0 "$work/bundle.tar.xz" || { cat "$work/said"; fail "device-bundle"; }
says "has no tests/golden_runner: it is left out"
says "MiB"
(cd "$work" && python3 -m tarfile -e bundle.tar.xz .)
there=$work/crema-device
(cd / && env -i PATH=/usr/bin:/bin "$there/crema" --version) >"$work/said" 2>&1 || { cat "$work/said"; fail "does not start"; }
says "libprotoc"
for library in $libraries; do
  case $library in
    # Those of the machine.
    libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.*) [[ ! -e $there/lib/$library ]] || fail "packs $library" ;;
    *) [[ -f $there/lib/$library ]] || fail "does not pack $library" ;;
  esac
done
env -i PATH=/usr/bin:/bin LD_LIBRARY_PATH="$there/lib" ldd "$there/bin/crema" >"$work/said"
grep -q "protobuf.* => $there/lib/" "$work/said" || fail "takes libraries of this machine: $(<"$work/said")"
# The program itself, with this machine's libraries.
rm -r "${there:?}"/lib/*
ln -f "$CREMA_BUILD_DIR/bin/crema" "$there/bin/crema" 2>/dev/null || cp "$CREMA_BUILD_DIR/bin/crema" "$there/bin"
(cd "$there" && env -i PATH=/usr/bin:/bin ./crema summary --tune=false --model models/lenet/deploy.prototxt) >"$work/said" 2>&1 ||
  { cat "$work/said"; fail "does not run"; }
says "conv1"

# --- device-check: in the bundle, and in the repository.
export CUDA_VISIBLE_DEVICES=
parts=$("$there/scripts/device-check" --dry-run)
for part in device errors lenet graphs long time bench tests golden nets sanitize; do
  grep -q "^$part:" <<<"$parts" || fail "no part $part in: $parts"
done
for word in "--gpu=7" "bf16_solver.prototxt" "golden_runner --gpu=0 --strict" "--gtest_filter" "--tool racecheck" "--quick" "first_iter_500.solverstate"; do
  grep -qF -- "$word" <<<"$parts" || fail "no $word in: $parts"
done
! "$there/scripts/device-check" nosuch >"$work/said" 2>&1 || fail "takes a part that is none"
says "no part 'nosuch'"
! "$there/scripts/device-check" --out "$work/out" >"$work/said" 2>&1 || fail "passes without a device"
says "FAILED   device"
says "no device: "
[[ $(grep -c 'needs a device' "$work/said") == 10 ]] || { cat "$work/said"; fail "not all other parts are skipped"; }
[[ -s $work/out/device.log ]] || fail "no log"
! "$source_dir/scripts/device-check" --build "$CREMA_BUILD_DIR" --out "$work/out2" golden >"$work/said" 2>&1 || fail "passes without a device"
says "skipped  golden"

# Parts that hang, fail, and have too much to say.
python3 - "$source_dir" "$work" <<'PYTHON'
import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import sys

loader = importlib.machinery.SourceFileLoader("device_check", sys.argv[1] + "/scripts/device-check")
check = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(check)


def run_of(minutes=8):
    args = argparse.Namespace(out=sys.argv[2], minutes=minutes, dry_run=False, build=None)
    return check.Run(args)


status, lines, seconds = check.run_part(run_of(), "hangs", lambda run: run.need("hangs", ["sleep", 60], 1.5))
assert status == "FAILED" and "did not end within" in lines[0] and seconds < 10, (status, lines, seconds)
def looks(text, left=40):
    """What the part sanitize makes of a program that says `text` and does not end."""
    check.sanitizer = lambda: "sh"
    run = run_of()
    run.benches = True
    run.end = check.time.monotonic() + left
    run.program = lambda name: []
    call = run.call
    run.call = lambda log, command, limit, *rest: call(log, ["sh", "-c", f"echo '{text}'; sleep 60"], 1.5)
    return check.run_part(run, "sanitize", check.sanitize)


status, lines, _ = looks("========= COMPUTE-SANITIZER")
assert status == "passed" and all("nothing found in 30 s" in line for line in lines), (status, lines)
# Two rounds of three, which leave the part bench its time.
status, lines, _ = looks("========= COMPUTE-SANITIZER", check.BENCH_SECONDS + 200)
assert status == "passed" and all("nothing found in 100 s" in line for line in lines), (status, lines)
status, lines, _ = looks("========= Invalid __shared__ read of size 16 bytes")
assert status == "FAILED" and "Invalid __shared__ read" in lines[0], (status, lines)
status, lines, _ = check.run_part(run_of(), "fails", lambda run: run.need("fails", ["sh", "-c", "echo why; exit 3"], 5))
assert status == "FAILED" and "exit status 3" in lines[0] and lines[0].endswith("why"), lines
assert check.run_part(run_of(0), "late", lambda run: [])[0] == "NO TIME"
status, lines, _ = check.run_part(run_of(), "wrong", lambda run: None[1])
assert status == "FAILED" and "TypeError" in lines[0], lines
assert check.run_part(run_of(), "absent", lambda run: run.need("absent", ["/nosuch"], 5))[0] == "FAILED"
sys.path.insert(0, sys.argv[1] + "/scripts")
import bench_gpu  # noqa: E402

said, run = io.StringIO(), run_of()
for net in ("alexnet", "resnet50"):
    bench_gpu.print_rows([bench_gpu.row_of(net, 1, {"crema bf16": {"total_ms": 1.5, "memory_mb": 1, "taken_mb": 2}})], said)
run.args.python = "python3"
run.call = lambda *_: (1, said.getvalue())
lines = check.bench_of_one(run, "crema", [])
assert len(lines) == 2 and lines[1].startswith("resnet50 b1"), lines


def late(*_):
    raise check.TimeOver("late", "")


run.call = late
assert check.bench_of_one(run, "crema", []) == ["one image: late"]
page = io.StringIO()
with contextlib.redirect_stdout(page):
    check.print_page({"bench": ("passed", [f"row {i}" for i in range(300)], 1), "golden": ("passed", ["one", "two"], 1)}, 2, "x")
lines = page.getvalue().splitlines()
assert len(lines) <= check.PAGE_LINES and "    two" in lines and "    row 100" in lines, len(lines)
assert lines[-1] == "2 passed in 2 s; logs in x", lines[-1]
PYTHON
