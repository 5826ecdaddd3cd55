"""scripts/bench --gpu: nets of models/ on a GPU in Crema and in PyTorch, several kinds of arithmetic beside each other."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Nets and their batches; None: as in train_val.prototxt (the sequences of recurrent nets).
TRAINING = {"resnet50": 256, "googlenet": 256, "vgg16": 128, "alexnet": 256, "lenet": 64, "mobilenet_v2": 256,
            "efficientnet_b0": 128, "vit_tiny": 256, "lstm": None, "gru": None, "unet": 16}
INFERENCE = ("resnet50", "googlenet", "vgg16", "alexnet", "lenet", "mobilenet_v2", "efficientnet_b0", "vit_tiny",
             "ssd300_vgg", "unet")
QUICK = ("resnet50", "lenet", "alexnet")
# Iterations of nets that take less than a millisecond.
MANY = {"lenet": 500, "lstm": 50, "gru": 50}
# Data layers of these nets read databases; made-up data of this shape take their place.
READS_DATA = {"lenet": (1, 28, 28)}
# Those that the goals are about come first: a limit of time takes the last ones.
CREMA = ("bf16", "tf32", "strict")
SETTINGS = {"f32": (), "strict": ("math: STRICT",), "tf32": ("math: TF32",), "bf16": ("precision: BF16",)}
TORCH = ("compiled", "bf16", "tf32", "f32", "graphs")
TORCH_INFERENCE = ("graphs", "bf16", "tf32", "tf32_graphs", "onnxruntime")
# The column of PyTorch with the arithmetic of one of Crema; bf16 is compared with the best one.
LIKE = {"f32": "f32", "strict": "f32", "tf32": "tf32"}
ONNXRUNTIME = "onnxruntime"


class Failed(Exception):
    pass


class Budget:
    """The time that is left for all; None: without end."""

    def __init__(self, minutes):
        self.end = time.monotonic() + 60 * minutes if minutes else None

    def left(self):
        return None if self.end is None else max(0.0, self.end - time.monotonic())

    def limit(self, seconds):
        left = self.left()
        return seconds if left is None else min(seconds, left)


def blocks(text):
    """(begin, end) of the top-level messages of a prototxt."""
    depth, begin = 0, 0
    for at, letter in enumerate(re.sub(r"#[^\n]*|\"[^\"\n]*\"", lambda found: " " * len(found[0]), text)):
        if letter == "{":
            if depth == 0:
                begin = at
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth == 0:
                yield text.rfind("layer", 0, begin), at + 1


def net_text(text, net, batch, settings):
    """The net with another batch and other settings, fed with made-up data."""
    text = re.sub(r"(?m)^\s*(precision|math)\s*:.*\n", "", text)
    if net in READS_DATA:
        for begin, end in reversed(list(blocks(text))):
            if re.search(r'type:\s*"Data"', text[begin:end]):
                text = text[:begin] + text[end:]
        dims = " ".join(f"dim: {size}" for size in (batch, *READS_DATA[net]))
        text += (f'\nlayer {{ name: "data" type: "Input" top: "data" top: "label" '
                 f"input_param {{ shape {{ {dims} }} shape {{ dim: {batch} }} }} }}\n")
        # The order of layers is that of the file.
        begin, end = list(blocks(text))[-1]
        layer, rest = text[begin:end], text[:begin]
        first = next(blocks(rest))[0]
        text = rest[:first] + layer + "\n" + rest[first:]
    elif batch:
        for begin, end in blocks(text):
            if re.search(r'type:\s*"Input"', text[begin:end]):
                layer = re.sub(r"(shape\s*\{\s*dim:\s*)\d+", rf"\g<1>{batch}", text[begin:end])
                text = text[:begin] + layer + text[end:]
                break
        else:
            text = re.sub(r"((?:input_shape\s*\{\s*dim|input_dim)\s*:\s*)\d+", rf"\g<1>{batch}", text, count=1)
    return "\n".join((*settings, text))


def run_limited(command, limit, environment=None):
    """stdout of a command; Failed if it fails, or does not end within `limit` seconds. What it had written by then is
    in `output` of Failed."""
    with tempfile.TemporaryFile(mode="w+") as output, tempfile.TemporaryFile(mode="w+") as errors:
        try:
            process = subprocess.Popen(command, stdout=output, stderr=errors, text=True, cwd=ROOT,
                                       env=dict(os.environ, **(environment or {})))
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from error
        try:
            process.wait(timeout=limit)
            why = "" if process.returncode == 0 else f"exit code {process.returncode}"
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            why = f"took longer than {limit:.0f} s"
        output.seek(0)
        errors.seek(0)
        said = output.read()
        if why:
            last = (errors.read().strip() or said.strip() or "no output").splitlines()[-3:]
            failure = Failed(f"{why}: " + " / ".join(last))
            failure.output = said
            raise failure
        return said


def known_columns(args):
    """Those of Crema's columns that the program has settings for."""
    said = run_limited([args.binary, "help", "net"], 60)
    if re.search(r"(?m)^\s+math\s", said):
        return CREMA
    return ("f32", "bf16")


def check_device(args):
    """Error unless there is a device; returns its line."""
    said = run_limited([args.binary, "device-query"], 60)
    found = re.search(rf"(?m)^CUDA {args.gpu}: (.*)", said)
    if found:
        return found[1]
    why = re.search(r"(?m)^CUDA: no device: (.*)", said)
    raise Failed(f"there is no GPU {args.gpu}: {why[1] if why else said.strip()}")


def crema_sample(args, net, batch, column, budget, folder):
    kind = "deploy" if args.inference else "train_val"
    text = (ROOT / "models" / net / f"{kind}.prototxt").read_text()
    settings = SETTINGS[column]
    model = pathlib.Path(folder) / f"{net}_{column}.prototxt"
    model.write_text(net_text(text, net if not args.inference else "", batch, settings))
    command = [args.binary, "time", f"--gpu={args.gpu}", "--model", str(model), "--json",
               f"--iterations={args.iterations or MANY.get(net, 20)}"]
    command += (["--phase", "TEST"] if args.inference else []) + args.crema_flag
    said = run_limited(command, budget.limit(180))
    try:
        result = json.loads(said.strip().splitlines()[-1])
        return {"total_ms": float(result["total_ms"]), "memory_mb": float(result["planned_mb"]),
                "taken_mb": float(result["taken_mb"])}
    except (ValueError, KeyError, IndexError) as error:
        raise Failed(f"the last line of `crema time` is not the expected JSON: {said[-200:]!r}") from error


def torch_samples(args, net, batch, columns, budget):
    """{column: sample, or a text that says why there is none}."""
    command = [args.python, str(ROOT / "scripts/bench_torch_gpu.py"), "--net", net, "--columns", ",".join(columns),
               "--device", f"cuda:{args.gpu}"]
    command += ["--batch", str(batch)] if batch else []
    command += ["--inference"] if args.inference else []
    command += ["--format", "contiguous"] if net == "lenet" else []
    why = "not reached"
    try:
        said = run_limited(command, budget.limit(90 + 60 * len(columns)))
    except Failed as failure:
        why, said = str(failure), getattr(failure, "output", "")
    found = {}
    for line in said.splitlines():
        try:
            result = json.loads(line)
            found[result["column"]] = result if "total_ms" in result else result.get("failed", "no time")
        except (ValueError, KeyError, TypeError):
            continue
    return {column: found.get(column, why) for column in columns}


def row_of(net, batch, samples):
    """The samples with their ratios: of Crema to the best time of the others, and to PyTorch's in the like arithmetic."""
    torch = {name: s for name, s in samples.items() if not name.startswith("crema ") and isinstance(s, dict)}
    best = min(torch, key=lambda name: torch[name]["total_ms"]) if torch else None
    for name, sample in samples.items():
        if not name.startswith("crema ") or not isinstance(sample, dict):
            continue
        if best:
            sample["ratio"] = sample["total_ms"] / torch[best]["total_ms"]
            if torch[best].get("memory_mb"):
                sample["memory_ratio"] = sample["memory_mb"] / torch[best]["memory_mb"]
        like = torch.get("torch " + LIKE.get(name.removeprefix("crema "), ""))
        if like:
            sample["like"] = sample["total_ms"] / like["total_ms"]
    return {"net": net, "batch": batch, "best": best, "samples": samples}


def print_rows(rows, stream):
    print(f"{'net':<16} {'':<18} {'ms':>9} {'images/s':>9} {'MB':>8} {'taken MB':>9} {'of best':>8} {'of like':>8} {'MB of':>6}",
          file=stream)
    for row in rows:
        for name, sample in row["samples"].items():
            label = row["net"] + (f" b{row['batch']}" if row["batch"] else "")
            if not isinstance(sample, dict):
                print(f"{label:<16} {name:<18} {sample}", file=stream)
                continue
            rate = f"{1e3 * row['batch'] / sample['total_ms']:9.0f}" if row["batch"] else f"{'':>9}"
            cells = [f"{sample[key]:{width}.2f}" if key in sample else " " * width
                     for key, width in (("ratio", 8), ("like", 8), ("memory_ratio", 6))]
            star = " *" if name == row["best"] else ""
            print(f"{label:<16} {name:<18} {sample['total_ms']:9.3f} {rate} {sample['memory_mb']:8.0f} "
                  f"{sample['taken_mb']:9.0f} {' '.join(cells)}{star}".rstrip(), file=stream)
    print("* the fastest that is not Crema; 'of best' is Crema's time over its, 'MB of' Crema's planned memory over what its tensors "
          "took, 'of like' the time over PyTorch's in the same arithmetic", file=stream)


def torch_columns(args, net):
    columns = TORCH_INFERENCE if args.inference else TORCH if net == "lenet" else TORCH[:4]
    if args.quick:
        columns = tuple(c for c in columns if c not in ("f32", "tf32_graphs"))
    if args.columns:
        columns = tuple(c for c in columns if c in args.columns)
    if net == "ssd300_vgg":  # chooses boxes on the host
        columns = tuple(c for c in columns if c in ("tf32", "bf16"))
    if net == "lenet" and not args.inference and "graphs" in columns and "compiled" in columns:
        columns = tuple(c for c in columns if c != "compiled")
    return columns


def crema_columns(args, known):
    if args.columns:
        return tuple(c for c in known if c in args.columns)
    return tuple(c for c in known if c != "strict") if args.quick else known


def nets_of(args, parser):
    known = INFERENCE if args.inference else tuple(TRAINING)
    if not args.nets:
        return tuple(n for n in QUICK if n in known) if args.quick else known
    nets = tuple(args.nets.split(","))
    for net in nets:
        if net not in known:
            parser.error(f"--gpu has no net '{net}'; there are {', '.join(known)}")
    return nets


def main(args, nets):
    budget = Budget(args.minutes)
    with_crema, with_torch = args.skip != "crema", args.skip != "torch"
    known = ()
    try:
        if with_crema:
            print(check_device(args), file=sys.stderr)
            known = known_columns(args)
        if with_torch:
            ask = ("import sys, torch; print('PyTorch', torch.__version__); "
                   "sys.exit(0 if torch.cuda.is_available() else 'PyTorch finds no CUDA device')")
            print(run_limited([args.python, "-c", ask], 120).strip(), file=sys.stderr)
    except Failed as failure:
        sys.exit(f"bench: {failure}\n(--binary and --python name the programs; --skip leaves one out)")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for net in nets:
            batch = 1 if args.inference else TRAINING[net]
            samples = {}
            for column in crema_columns(args, known) if with_crema else ():
                samples[f"crema {column}"] = guarded(
                    budget, lambda c=column: crema_sample(args, net, batch, c, budget, folder))
            columns = torch_columns(args, net) if with_torch else ()
            if columns:
                made = guarded(budget, lambda: torch_samples(args, net, batch, columns, budget))
                for column in columns:
                    name = column if column == ONNXRUNTIME else f"torch {column}"
                    samples[name] = made if isinstance(made, str) else made[column]
            rows.append(row_of(net, batch, samples))
            print_rows(rows[-1:], sys.stderr)
    print_rows(rows, sys.stdout)
    if args.json:
        args.json.write_text(json.dumps({"nets": rows}, indent=2) + "\n")
    if not all(isinstance(s, dict) for row in rows for s in row["samples"].values()):
        sys.exit(1)


def guarded(budget, measure):
    """What `measure` returns, or why it did not."""
    if budget.left() is not None and budget.left() < 5:
        return "left out: the time is over (--minutes)"
    try:
        return measure()
    except Failed as failure:
        return str(failure)
