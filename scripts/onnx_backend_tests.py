#!/usr/bin/env python3
"""Runs the operator cases of the Python package onnx with Crema, and prints a table by operator.

    scripts/onnx_backend_tests.py [--build build/release] [--all] [--why]

A case is a model of one operator (or of the operators that stand for one, "expanded"), inputs and
outputs. It passes if the imported net gives the outputs, by ONNX's own tolerances; it is not
supported if the model is refused with a message; it is wrong if the net gives something else. The
exit status is 1 if a case is wrong.

It needs the package onnx (pip install onnx) and a build with tests (onnx_runner).
"""
import argparse
import collections
import pathlib
import subprocess
import sys

# What nets of images and sequences do not use: texts, sequences and optional values, control flow,
# random numbers, training, and machine learning on tables.
OUT_OF_SCOPE = (
    "adagrad", "adam", "nesterov", "momentum", "ai_onnx_ml", "bernoulli", "image_decoder", "identity_opt", "identity_sequence",
    "if_", "loop", "scan", "optional", "sequence", "split_to_sequence", "string", "regex", "strnorm", "tfidf", "training_dropout",
    "gradient", "label_encoder", "array_feature", "binarizer", "tree_ensemble", "concat_from_sequence", "blackman", "hamming",
    "hann", "melweight", "stft", "dft", "cast_STRING", "equal_string", "random",
)


def cases(folder: pathlib.Path, everything: bool) -> list[pathlib.Path]:
    found = sorted(path.parent for path in folder.glob("*/model.onnx"))
    if everything:
        return found
    def is_in_scope(name: str) -> bool:
        name = name.removeprefix("test_")
        return not any(name.startswith(word) or f"_{word}" in name for word in OUT_OF_SCOPE)
    return [path for path in found if is_in_scope(path.name)]


def operator_of(model: pathlib.Path) -> str:
    import onnx

    graph = onnx.load(str(model), load_external_data=False).graph
    name = model.parent.name
    if "expanded" in name:
        return "(expanded)"
    return graph.node[-1].op_type if len(graph.node) == 1 else graph.node[0].op_type


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="the folder of the build")
    parser.add_argument("--all", action="store_true", help="also cases of operators that nets do not use")
    parser.add_argument("--why", action="store_true", help="a line for each case that does not pass")
    arguments = parser.parse_args()
    try:
        import onnx
        import onnx.backend.test
    except ImportError as error:
        print(f"onnx_backend_tests: error: {error}; pip install onnx", file=sys.stderr)
        return 2
    runner = pathlib.Path(arguments.build) / "tests/onnx_runner"
    if not runner.exists():
        print(f"onnx_backend_tests: error: there is no {runner}; build with CREMA_TESTS=ON", file=sys.stderr)
        return 2
    data = pathlib.Path(onnx.backend.test.__file__).parent / "data/node"
    paths = cases(data, arguments.all)
    operators = {path.name: operator_of(path / "model.onnx") for path in paths}
    results: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    total: collections.Counter = collections.Counter()
    size = 50
    for first in range(0, len(paths), size):
        batch = [str(path) for path in paths[first:first + size]]
        while batch:
            run = subprocess.run([str(runner), *batch], capture_output=True, text=True)
            lines = run.stdout.splitlines()
            for line in lines:
                verdict, rest = line.split(" ", 1)
                name = rest.split(":", 1)[0]
                results[operators[name]][verdict] += 1
                total[verdict] += 1
                if verdict == "WRONG" or arguments.why and verdict == "none":
                    print(line[:400])
            batch = batch[len(lines):]
            if run.returncode in (0, 1) or not batch:
                continue
            name = pathlib.Path(batch[0]).name
            print(f"WRONG {name}: the program ended with status {run.returncode}: {run.stderr.strip()[-300:]}")
            results[operators[name]]["WRONG"] += 1
            total["WRONG"] += 1
            batch = batch[1:]
    print(f"{'operator':28} {'passed':>7} {'not supported':>14} {'wrong':>6}")
    for operator in sorted(results):
        row = results[operator]
        print(f"{operator:28} {row['pass']:7} {row['none']:14} {row['WRONG']:6}")
    print(f"{'all, onnx ' + onnx.__version__:28} {total['pass']:7} {total['none']:14} {total['WRONG']:6}")
    return 1 if total["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
