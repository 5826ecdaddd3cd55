"""The picture of scripts/bench --svg: bars of the times that models/benchmarks.md has of some nets.

The rows are those of the sections SECTIONS, which were measured on one machine on one day; the first of them names the machine,
the day and the versions. Needs Python 3.8 and nothing else.
"""

import re
from xml.sax.saxutils import escape

NETS = ("alexnet", "googlenet", "resnet18", "resnet50", "densenet121", "inception_v3", "mobilenet_v2", "vit_tiny")
SECTIONS = ("Training and inference, AVX-512 and AVX2", "Further nets")
ENGINES = ("Crema", "onnxruntime", "PyTorch")  # from top to bottom in the picture
MEASURED = re.compile(r"(?P<cores>\w+ cores of .*?) \((?P<name>[^,)]+), (?P<vectors>[^,)]+),.*?\), (?P<day>\d+ \w+ \d{4}), "
                      r"(?P<torch>PyTorch [\d.]+), (?P<onnxruntime>onnxruntime [\d.]+)")

WIDTH, MARGIN, NAMES = 960, 24, 128
TOP, BAR, BAR_GAP, ROW_GAP, LABEL = 96, 11, 2, 12, 62
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328 }
  .title { font-size: 17px; font-weight: 600 }
  .head { font-size: 14px; font-weight: 600 }
  .small, .ms { font-size: 11.5px; fill: #59636e }
  .own { font-weight: 600; fill: #1f2328 }
  .paper { fill: #ffffff; stroke: #d1d9e0 }
  .Crema { fill: #b4571e }
  .onnxruntime { fill: #6f8fb8 }
  .PyTorch { fill: #b9c0c8 }
  @media (prefers-color-scheme: dark) {
    text, .own { fill: #f0f6fc }
    .small, .ms { fill: #9198a1 }
    .own { fill: #f0f6fc }
    .paper { fill: #0d1117; stroke: #3d444d }
    .Crema { fill: #ec8f4e }
    .onnxruntime { fill: #5b7ca8 }
    .PyTorch { fill: #59636e }
  }"""


class Missing(Exception):
    pass


def section_of(page, title):
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    if not found:
        raise Missing(f"there is no section '{title}'")
    return found[1]


def tables_of(text):
    """The tables of a text, each a list of rows of {column: cell}; of columns with one name the first one counts."""
    tables, block = [], []
    for line in text.splitlines() + [""]:
        if line.startswith("|"):
            block.append([cell.strip() for cell in line.strip().strip("|").split("|")])
        elif block:
            tables.append([{name: cell for name, cell in reversed(list(zip(block[0], row)))} for row in block[2:]])
            block = []
    return tables


def times_of(page, nets):
    """{"training" or "inference": {net: {engine: milliseconds as text}}}, of the first row of each net."""
    times = {"training": {}, "inference": {}}
    for title in SECTIONS:
        for table in tables_of(section_of(page, title)):
            if not table or not {"net", "Crema", "PyTorch"} <= set(table[0]):
                continue
            kind = "inference" if "onnxruntime" in table[0] else "training"
            for row in table:
                cells = {engine: row.get(engine, "-") for engine in ENGINES}
                times[kind].setdefault(row["net"], {engine: cell for engine, cell in cells.items()
                                                    if re.fullmatch(r"[\d,]+(\.\d+)?", cell)})
    for kind, of_nets in times.items():
        lacking = [net for net in nets if not {"Crema", "PyTorch"} <= set(of_nets.get(net, {}))]
        if lacking:
            raise Missing(f"the sections {' and '.join(map(repr, SECTIONS))} have no row of {kind} with '{lacking[0]}'")
    return times


def share(of_net, engine):
    """The time of the engine over that of PyTorch."""
    own, torch = (float(of_net[name].replace(",", "")) for name in (engine, "PyTorch"))
    return own / torch


def bars(times, nets, left, right):
    """Lines of SVG: for each net bars that are as long as the share of PyTorch's time."""
    engines = [engine for engine in ENGINES if any(engine in times[net] for net in nets)]
    longest = max(share(times[net], engine) for net in nets for engine in times[net])
    height = len(engines) * (BAR + BAR_GAP)
    lines = []
    for place, net in enumerate(nets):
        y = TOP + place * row_height() + (row_height() - ROW_GAP - height) / 2
        for engine in engines:
            if engine in times[net]:
                width = (right - left - LABEL) * share(times[net], engine) / longest
                own = " own" if engine == "Crema" else ""
                lines.append(f'<rect class="{engine}" x="{left}" y="{y:g}" width="{width:.1f}" height="{BAR}" rx="1.5"/>')
                lines.append(f'<text class="ms{own}" x="{left + width + 5:.1f}" y="{y + BAR - 1.5:g}">'
                             f'{times[net][engine]} ms</text>')
            y += BAR + BAR_GAP
    return lines


def row_height():
    return len(ENGINES) * (BAR + BAR_GAP) + ROW_GAP


def picture(page, nets=NETS):
    """The text of the SVG file, from the text of models/benchmarks.md."""
    measured = MEASURED.search(" ".join(section_of(page, SECTIONS[0]).split()))
    if not measured:
        raise Missing(f"the section '{SECTIONS[0]}' does not say on which machine, on which day and with which versions")
    times = times_of(page, nets)
    middle = NAMES + MARGIN + (WIDTH - NAMES - 2 * MARGIN) // 2
    height = TOP + len(nets) * row_height() + 44
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
             "<title>Training and inference: times beside PyTorch and onnxruntime</title>",
             "<desc>Written by scripts/bench --svg from models/benchmarks.md.</desc>", f"<style>{STYLE}\n</style>",
             f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
             f'<text class="title" x="{MARGIN}" y="36">Training and inference on two CPU cores</text>',
             f'<text class="small" x="{MARGIN}" y="56">bars: share of PyTorch’s time, shorter is faster</text>']
    x = middle
    for engine in ENGINES:
        lines.append(f'<rect class="{engine}" x="{x}" y="25" width="12" height="12" rx="2"/>')
        lines.append(f'<text x="{x + 18}" y="36">{engine}</text>')
        x += 36 + 8 * len(engine)
    for x, head in ((NAMES + MARGIN, "A training step"), (middle, "Inference of one image")):
        lines.append(f'<text class="head" x="{x}" y="{TOP - 12}">{head}</text>')
    for place, net in enumerate(nets):
        y = TOP + place * row_height() + (row_height() - ROW_GAP) / 2 + 4
        lines.append(f'<text x="{MARGIN}" y="{y:g}">{escape(net)}</text>')
    lines += bars(times["training"], nets, NAMES + MARGIN, middle - MARGIN)
    lines += bars(times["inference"], nets, middle, WIDTH - MARGIN)
    words = measured.groupdict()
    said = (f"{words['cores']} ({words['name']}, {words['vectors']}), {words['day']}, {words['torch']}, "
            f"{words['onnxruntime']}")
    lines += [f'<text class="small" x="{MARGIN}" y="{height - 20}">{escape(said)}</text>', "</svg>"]
    return "\n".join(lines) + "\n"
