"""Models of ONNX that other frameworks wrote, imported and trained: for onnx_torchvision.py and onnx_exports.py.

A case has a name, an input, and a function that writes the model and returns what the framework computes for the input.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[1]
ITERATIONS = 10


def train(folder, inputs, output, shape):
    """The losses of ten iterations on the same images. `shape`: of the scores, (N, classes, ...)."""
    import crema
    labels = " ".join(f"dim: {size}" for size in (shape[0], *shape[2:]))
    (folder / "train.prototxt").write_text((folder / "deploy.prototxt").read_text() + f'''
layer {{ name: "train_label" type: "Input" top: "train_label" input_param {{ shape {{ {labels} }} }} }}
layer {{ name: "train_loss" type: "SoftmaxWithLoss" bottom: "{output}" bottom: "train_label" top: "train_loss" }}
''')
    (folder / "solver.prototxt").write_text(
        f'net: "{folder}/train.prototxt" base_lr: 0.001 momentum: 0.9 lr_policy: "fixed" max_iter: {ITERATIONS} clip_gradients: 10 '
        "snapshot_after_train: false")
    solver = crema.Solver(folder / "solver.prototxt", weights=next(folder.glob("*.caffemodel")), seed=1)
    blobs = solver.net.blobs
    for name, values in zip(solver.net.inputs, inputs):
        blobs[name].data[...] = values
    blobs["train_label"].data[...] = shape[1] // 2
    losses = []
    solver.on_iteration = lambda report: losses.append(report.loss)
    solver.solve()
    return losses


def outputs_of(path):
    """The names of the model's outputs, in its order."""
    import onnx
    return [output.name for output in onnx.load(str(path), load_external_data=False).graph.output]


def check(program, write, trains, tolerance):
    """A row of the table: layers, difference, losses, what went wrong."""
    import numpy
    import crema
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        path = folder / "net.onnx"
        try:
            inputs, expected = write(path)
        except Exception as error:  # noqa: BLE001  (of any framework)
            return "", "", "", f"not exported: {type(error).__name__} {str(error).strip().splitlines()[0][:150]}", "skipped"
        try:
            net = crema.Net(path)
        except crema.Error as error:
            return "", "", "", "refused: " + str(error).replace("\n", " ")[:300], "bad"
        layers = len(net.layers)
        others = sorted({layer.name for layer in net.layers if layer.type == "OnnxOperator"})
        try:
            for name, value in zip(net.inputs, inputs):
                net.blobs[name].reshape(*value.shape)
            given = net.forward(**{name: value for name, value in zip(net.inputs, inputs)})
            names = outputs_of(path)
            if len(names) != len(expected) or set(names) != set(net.outputs):
                raise ValueError(f"outputs are {net.outputs}, of the model {names}, of the framework {len(expected)}")
            differences = []
            for value, name in zip(expected, names):
                scale = float(numpy.abs(value).max()) or 1.0
                differences.append(float(numpy.abs(given[name].reshape(value.shape) - value).max()) / scale)
            difference = max(differences)
        except (crema.Error, ValueError) as error:
            return str(layers), "", "", "does not run: " + str(error).replace("\n", " ")[:300], "bad"
        state = "good" if difference <= tolerance else "bad"
        said = f"{len(others)} by OnnxOperator" if others else ""
        losses = ""
        if trains:
            run = subprocess.run([str(program), "import-onnx", str(path), "-o", str(folder / "net"), "--noprove", "--notune"],
                                 capture_output=True, text=True, check=False)
            try:
                if run.returncode != 0:
                    raise RuntimeError(run.stderr.strip().splitlines()[-1])
                values = train(folder / "net", inputs, names[0], expected[0].shape)
                losses = f"{values[0]:.4g} to {values[-1]:.4g}"
                if not numpy.isfinite(values).all() or not values[-1] < values[0]:
                    said, state = "the loss does not fall", "bad"
            except (crema.Error, RuntimeError, IndexError, ValueError) as error:
                said, state = "does not train: " + str(error).replace("\n", " ")[:300], "bad"
        return str(layers), f"{difference:.1e}", losses, said, state


def main(doc, groups, package):
    """Runs the cases: {name: (function(path) -> (inputs, outputs), whether it trains)}."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="the folder of the build")
    parser.add_argument("--only", default="", help="names of nets, with commas between")
    parser.add_argument("--no-train", action="store_true", help="compare outputs alone")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="the largest difference by the greatest value of the output")
    arguments = parser.parse_args()
    build = pathlib.Path(arguments.build)
    sys.path.insert(0, str(build / "python"))
    try:
        import crema
    except ImportError as error:
        print(f"{package}: error: {error}; build with CREMA_PYTHON=ON", file=sys.stderr)
        return 2
    warnings.filterwarnings("ignore")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    crema.set_context(crema.Context(seed=1, tune=False))
    wanted = [name for name in arguments.only.split(",") if name]
    counts = {"good": 0, "bad": 0, "skipped": 0}
    print("| net | layers | difference | loss in ten iterations | |\n|---|---|---|---|---|", flush=True)
    for name, (write, trains) in groups.items():
        if wanted and name not in wanted:
            continue
        *columns, state = check(build / "bin/crema", write, trains and not arguments.no_train, arguments.tolerance)
        counts[state] += 1
        print(f"| {name} | " + " | ".join(columns) + " |", flush=True)
    print(f"\n{sum(counts.values())} nets: {counts['good']} good, {counts['bad']} bad, {counts['skipped']} not exported")
    return 1 if counts["bad"] else 0
