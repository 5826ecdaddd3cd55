#!/usr/bin/env python3
"""Exports nets as models of ONNX and runs them by Crema and by onnxruntime: a table of differences.

    scripts/onnx_models.py                          all nets of models/ that have a file for inference
    scripts/onnx_models.py --shared ../shared/data/models    and those of a folder, with their weights
    scripts/onnx_models.py --only lenet,resnet50 --opsets 17

For each net and opset, `crema export-onnx` writes the model and runs it, imported again and by
onnxruntime, on random inputs; onnx.checker checks the file. A row says the largest difference of
all outputs, relative to the greatest value of the output. Nets without weights have random ones, and
BatchNorm has the statistics of one random batch. The exit status is 1 if a
model is refused by a checker or runtime, a difference exceeds --tolerance, or the outputs are the
same for other inputs, so that the differences show nothing.

It needs the packages onnx and onnxruntime (pip install onnx onnxruntime), and a build with
CREMA_PYTHON.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHOWS_NOTHING = "the proof shows nothing"
PROVEN = re.compile(r"relative (\S+)\s+(imported again|onnxruntime \S+)")


def nets_of_models():
    """(name, prototxt, weights or None)."""
    for folder in sorted((ROOT / "models").iterdir()):
        for file in sorted(folder.glob("*deploy.prototxt")):
            kind = file.name.removesuffix("deploy.prototxt").rstrip("_")
            yield folder.name + (f" ({kind})" if kind else ""), file, None


def nets_of_folder(folder):
    for deploy in sorted(folder.glob("*/*.prototxt")):
        weights = sorted([*deploy.parent.glob("*.caffemodel"), *deploy.parent.glob("*.caffemodel.h5")])
        if deploy.name == "deploy.prototxt":
            for file in weights:
                yield f"{deploy.parent.name}/{file.name}", deploy, file
        else:  # det1.prototxt beside det1.caffemodel
            for file in weights:
                if file.name == deploy.stem + ".caffemodel":
                    yield f"{deploy.parent.name}/{deploy.stem}", deploy, file


def made_weights(deploy, folder):
    """A file of weights in which no layer is degenerate: random ones where fillers give none, and BatchNorm's statistics of a random batch."""
    import numpy
    import crema
    random = numpy.random.default_rng(1)
    crema.set_context(crema.Context(seed=1, tune=False))
    net = crema.Net(deploy, backward=True)
    kinds = {layer.name: layer.type for layer in net.layers}
    for name, blobs in net.params.items():
        if kinds[name] == "BatchNorm":
            continue
        for index, blob in enumerate(blobs):
            values = blob.data
            if values.size > 1 and values.std() > 0:
                continue
            inputs = max(1, values.size // values.shape[0]) if index == 0 and values.ndim > 1 else 100
            scale = 0.1 if index > 0 or values.ndim == 1 else (2 / inputs) ** 0.5
            values[...] = random.normal(values.flat[0], scale, values.shape)
    if "BatchNorm" in kinds.values():
        try:
            trained = crema.Net(deploy, phase=crema.TRAIN, share_with=net)
            for name in trained.inputs:
                trained.blobs[name].data[...] = random.uniform(-1, 1, trained.blobs[name].data.shape)
            trained.forward()
        except crema.Error as error:  # a layer that cannot train
            print(f"{deploy}: statistics of BatchNorm are made up: {error}", file=sys.stderr)
    for name, blobs in net.params.items():
        if kinds[name] != "BatchNorm":
            continue
        mean, variance, factor = (blob.data for blob in blobs)
        if factor[0] != 0 and (variance > 0).all():
            continue
        factor[...] = 1
        mean[...] = random.uniform(-0.2, 0.2, mean.shape)
        variance[...] = random.uniform(0.5, 1.5, variance.shape)
    path = folder / "made.caffemodel"
    net.save(path)
    return path


def export(crema_program, deploy, weights, opset, folder, environment):
    """({"crema": difference, "onnxruntime": difference}, what went wrong or "", custom)."""
    import onnx
    path = folder / "net.onnx"
    command = [crema_program, "export-onnx", "--model", deploy, "-o", path, "--opset", str(opset), "--overwrite", "--notune",
               "--tolerance", "1e9"]
    if weights:
        command += ["--weights", weights]
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment, check=False)
    found = {}
    for difference, by in PROVEN.findall(run.stdout):
        by = "crema" if by == "imported again" else "onnxruntime"
        found[by] = max(found.get(by, 0.0), float(difference))
    custom = re.findall(r'the domain "crema" of (.*)', run.stdout)
    if run.returncode != 0:
        said = [line for line in run.stderr.splitlines() if "rror" in line or "crema:" in line] or run.stderr.splitlines() or ["?"]
        return found, said[-1].strip(), custom
    if SHOWS_NOTHING in run.stdout + run.stderr:
        return found, "the outputs are the same for other inputs", custom
    try:
        onnx.checker.check_model(str(path), full_check=not custom)
    except Exception as error:  # noqa: BLE001  (the checker has no class for all of them)
        return found, "onnx.checker: " + str(error).splitlines()[0], custom
    if "onnxruntime" not in found and not custom:
        return found, "onnxruntime did not run: " + "".join(re.findall(r"not run by onnxruntime: (.*)", run.stdout)), custom
    for file in folder.glob("net.onnx*"):
        file.unlink()
    return found, "", custom


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="the folder of the build")
    parser.add_argument("--shared", help="a folder of nets with weights, each in a folder of its own")
    parser.add_argument("--only", default="", help="names of nets, with commas between")
    parser.add_argument("--opsets", default="13,17,21")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    arguments = parser.parse_args()
    build = pathlib.Path(arguments.build)
    sys.path.insert(0, str(build / "python"))
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import crema  # noqa: F401
    except ImportError as error:
        print(f"onnx_models: error: {error}; pip install onnx onnxruntime, and build with CREMA_PYTHON=ON", file=sys.stderr)
        return 2
    # The program asks python3 for onnxruntime.
    environment = dict(os.environ, PATH=os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", ""))
    nets = list(nets_of_models()) + (list(nets_of_folder(pathlib.Path(arguments.shared))) if arguments.shared else [])
    wanted = [name for name in arguments.only.split(",") if name]
    opsets = [int(opset) for opset in arguments.opsets.split(",")]
    print("| net | opset | imported again | onnxruntime | |\n|---|---|---|---|---|", flush=True)
    good = far = bad = 0
    for name, deploy, weights in nets:
        if wanted and not any(word in name for word in wanted):
            continue
        with tempfile.TemporaryDirectory() as made:
            folder = pathlib.Path(made)
            try:
                weights = weights or made_weights(deploy, folder)
            except crema.Error as error:
                print(f"| {name} | | | | cannot be built: {error} |", flush=True)
                bad += 1
                continue
            for opset in opsets:
                found, wrong, custom = export(build / "bin/crema", deploy, weights, opset, folder, environment)
                is_far = any(not difference <= arguments.tolerance for difference in found.values())
                bad += bool(wrong)
                far += is_far and not wrong
                good += not wrong and not is_far
                columns = [f"{found[by]:.1e}" if by in found else "" for by in ("crema", "onnxruntime")]
                said = wrong or ("domain crema: " + custom[0] if custom else "ABOVE" if is_far else "")
                print(f"| {name} | {opset} | {columns[0]} | {columns[1]} | {said} |", flush=True)
    print(f"\n{good + far + bad} models: {good} within {arguments.tolerance:g}, {far} above, {bad} refused")
    return 1 if far or bad else 0


if __name__ == "__main__":
    sys.exit(main())
