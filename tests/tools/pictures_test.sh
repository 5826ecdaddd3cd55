#!/usr/bin/env bash
# scripts/bench --svg makes the picture that ships from the rows of models/benchmarks.md, and scripts/terminal_picture draws what
# a terminal shows at the end. The pictures on pages of models are whole and small.
#   pictures_test.sh SOURCE_DIR SHARED_DIR
set -euo pipefail
source_dir=$1
command -v python3 >/dev/null || { echo "skipped: needs python3"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "$*"
  exit 1
}
whole() { python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1" || fail "$1 is not XML"; }

"$source_dir/scripts/bench" --svg speed.svg
cmp speed.svg "$source_dir/models/speed.svg" || fail "models/speed.svg is not of models/benchmarks.md: scripts/bench --svg models/speed.svg makes it"
whole speed.svg
"$source_dir/scripts/bench" --svg two.svg --nets resnet50,lstm
whole two.svg
[[ $(grep -c '<rect class="Crema"' two.svg) == 5 ]] || fail "not a bar of training and one of inference for each net, and one of the legend"
for row in '1,326 ms' '35.5 ms' '40.5 ms' '67.6 ms' '89.0 ms'; do
  grep -q ">$row<" two.svg || fail "no bar of $row"
done
! "$source_dir/scripts/bench" --svg none.svg --nets lenet 2>said || fail "draws a net that has no row of inference"
grep -q "no row of inference with 'lenet'" said || fail "$(<said)"
[[ ! -e none.svg ]] || fail "writes half a picture"

# The front page says from where to where the times go.
python3 - "$source_dir" <<'PYTHON'
import sys

sys.path.insert(0, sys.argv[1] + "/scripts")
import bench_picture

times = bench_picture.times_of(open(sys.argv[1] + "/models/benchmarks.md").read(), bench_picture.NETS)
front = " ".join(open(sys.argv[1] + "/README.md").read().split())
for kind, engine, words in (("training", "PyTorch", "a training step takes {} of PyTorch's time"),
                            ("inference", "PyTorch", "Inference takes {} of PyTorch's time"),
                            ("inference", "onnxruntime", "and {} of onnxruntime's")):
    rows = [times[kind][net] for net in bench_picture.NETS]
    ratios = sorted(float(row["Crema"].replace(",", "")) / float(row[engine].replace(",", "")) for row in rows)
    said = words.format(f"{ratios[0]:.2f} to {ratios[-1]:.2f}")
    assert said in front, f"README.md does not say: {said}"
PYTHON

# Pages without what the picture says.
python3 - "$source_dir" <<'PYTHON'
import sys

sys.path.insert(0, sys.argv[1] + "/scripts")
import bench_picture

page = open(sys.argv[1] + "/models/benchmarks.md").read()
for text, said in (("## Further nets\n", "there is no section 'Further nets'"),
                   (", 23 November 2026, PyTorch 2.15,\nonnxruntime", "does not say on which machine"),
                   ("| vit_tiny | 473 |", "no row of training with 'vit_tiny'")):
    assert text in page, text
    try:
        bench_picture.picture(page.replace(text, ""))
    except bench_picture.Missing as missing:
        assert said in str(missing), missing
    else:
        raise AssertionError(f"a picture without '{said}'")
PYTHON

picture=$source_dir/scripts/terminal_picture
# text FILE: what the picture shows, a line for each line of the terminal that is not empty.
text() { sed -n '/^<text/{s/<[^>]*>//g;p}' "$1"; }

"$picture" --columns 20 --rows 12 a.svg "printf 'one\\rtwo\\033[K\\n50%%\\r100%%\\r\\033[Kdone\\b!\\n'" 'echo "a<b & ünï"; stty size'
whole a.svg
[[ $(text a.svg | tail -n 6) == $'two\ndon!\n$ echo "a&lt;b &amp; ünï"; \nstty size\na&lt;b &amp; ünï\n12 20' ]] || fail "shows: $(text a.svg)"

"$picture" --rows 3 --before "echo hidden >$work/made" b.svg "printf '\\033[1;31mred\\033[0m plain'; printf '\\033[5'; sleep 0.1; printf 'Cx'" "test -e $work/made; seq 9"
whole b.svg
[[ $(text b.svg) == $'8\n9' ]] || fail "does not scroll: $(text b.svg)"
"$picture" c.svg "printf '\\033[1;31mred\\033[0m plain'; printf '\\033[5'; sleep 0.1; printf 'Cx'"
grep -q '<tspan class="bold c1">red</tspan> plain     x</text>' c.svg || fail "$(grep red c.svg)"

! "$picture" d.svg 'echo broken; exit 3' 2>said || fail "draws a command that fails"
[[ -s said && ! -e d.svg ]] || fail "a picture of a command that fails"
grep -q 'exit status 3 of: echo broken' said || fail "$(<said)"

# The pictures of the pages of models are there, whole and small, and a page says what makes its picture.
python3 - "$source_dir" <<'PYTHON'
import importlib.machinery
import importlib.util
import pathlib
import re
import struct
import sys
import xml.dom.minidom
import zlib

root = pathlib.Path(sys.argv[1])
shown = set()
for page in root.glob("models/**/README.md"):
    text = page.read_text(encoding="utf-8")
    for words, name in re.findall(r"!\[(.*?)\]\((.*?)\)", text):
        picture = page.parent / name
        assert words and picture.is_file(), f"{page}: ![{words}]({name})"
        data = picture.read_bytes()
        assert len(data) <= 40 * 1024, f"{picture} has {len(data)} bytes"
        if picture.suffix == ".svg":
            xml.dom.minidom.parseString(data)
        else:
            whole = data.startswith(b"\x89PNG\r\n\x1a\n") and data.endswith(b"\0\0\0\0IEND\xaeB`\x82")
            assert whole, f"{picture} is no whole PNG"
            at, pixels = 8, b""
            while at < len(data):
                length, kind = struct.unpack(">I4s", data[at:at + 8])
                body, (crc,) = data[at + 8:at + 8 + length], struct.unpack(">I", data[at + 8 + length:at + 12 + length])
                assert zlib.crc32(kind + body) == crc, f"{picture}: {kind} is damaged"
                pixels += body if kind == b"IDAT" else b""
                at += 12 + length
            assert zlib.decompress(pixels), f"{picture} is empty"
        assert f"`scripts/model_pictures {page.parent.name}`" in text, f"{page} does not say what makes {name}"
        shown.add(page.parent.name)

loader = importlib.machinery.SourceFileLoader("model_pictures", str(root / "scripts/model_pictures"))
script = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(script)
assert shown and shown <= set(script.PICTURES), f"scripts/model_pictures makes none for {shown - set(script.PICTURES)}"
assert script.curves_of("""
I20261127 02:36:02.551081 7 terminal.cpp:56] Iteration 0, Testing net (#0)
I20261127 02:36:02.551082 7 terminal.cpp:56]     Test net output #0: accuracy = 0.1
I20261127 02:36:02.551083 7 terminal.cpp:56]     Test net output #1: loss = 2.3 (* 1 = 2.3 loss)
I20261127 02:36:02.551084 7 terminal.cpp:56] Iteration 0, loss = 2.25
I20261127 02:36:02.551085 7 terminal.cpp:56]     Train net output #0: loss = 2.25 (* 1 = 2.25 loss)
I20261127 02:36:02.551093 7 terminal.cpp:56] Iteration 0, lr = 0.001
I20261127 02:36:03.946074 7 terminal.cpp:56] Iteration 100 (71.72 iter/s, 1.39s/100 iters), loss = 1.5e-1
I20261127 02:36:03.946174 7 terminal.cpp:56] Iteration 100, lr = 0.0001
""") == ([(0, 2.25), (100, 0.15)], [(0, 2.3)], [(0, 0.1)])
PYTHON
