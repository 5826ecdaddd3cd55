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
import tempfile

# What nets of images and sequences do not use: texts, sequences and optional values, control flow,
# random numbers, training, and machine learning on tables.
OUT_OF_SCOPE = (
    "adagrad", "adam", "nesterov", "momentum", "ai_onnx_ml", "bernoulli", "image_decoder", "identity_opt", "identity_sequence",
    "if_", "loop", "scan", "optional", "sequence", "split_to_sequence", "string", "regex", "strnorm", "tfidf", "training_dropout",
    "gradient", "label_encoder", "array_feature", "binarizer", "tree_ensemble", "concat_from_sequence", "blackman", "hamming",
    "hann", "melweight", "stft", "dft", "cast_STRING", "equal_string", "random",
)


def is_in_scope(name: str) -> bool:
    name = name.removeprefix("test_")
    return not any(name.startswith(word) or f"_{word}" in name for word in OUT_OF_SCOPE)


def write_cases(folder: pathlib.Path, everything: bool) -> dict[pathlib.Path, str]:
    """Writes the cases to folders of the form that onnx_runner reads. Returns the operator of each."""
    import numpy
    import onnx
    from onnx import numpy_helper
    from onnx.backend.test.case.node import collect_testcases

    operators = {}
    for case in collect_testcases():
        if not everything and not is_in_scope(case.name):
            continue
        path = folder / case.name
        path.mkdir()
        (path / "model.onnx").write_bytes(case.model.SerializeToString())
        for k, (inputs, outputs) in enumerate(case.data_sets):
            data = path / f"test_data_set_{k}"
            data.mkdir()
            for kind, values in (("input", inputs), ("output", outputs)):
                for i, value in enumerate(values):
                    # What is no tensor, such as a sequence, is a file that onnx_runner refuses.
                    is_tensor = isinstance(value, (numpy.ndarray, numpy.generic, onnx.TensorProto))
                    message = value if isinstance(value, onnx.TensorProto) else \
                        numpy_helper.from_array(numpy.asarray(value)) if is_tensor else None
                    (data / f"{kind}_{i}.pb").write_bytes(message.SerializeToString() if message else b"?")
        operators[path] = operator_of(case.model.graph, case.name)
    return operators


def operator_of(graph, name: str) -> str:
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
        import onnx.backend.test.case.node  # noqa: F401
    except ImportError as error:
        print(f"onnx_backend_tests: error: {error}; pip install onnx", file=sys.stderr)
        return 2
    runner = pathlib.Path(arguments.build) / "tests/onnx_runner"
    if not runner.exists():
        print(f"onnx_backend_tests: error: there is no {runner}; build with CREMA_TESTS=ON", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        operators = write_cases(pathlib.Path(folder), arguments.all)
        return report(runner, operators, arguments.why)


def report(runner: pathlib.Path, operators: dict[pathlib.Path, str], why: bool) -> int:
    import onnx

    paths = sorted(operators)
    by_name = {path.name: operators[path] for path in paths}
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
                results[by_name[name]][verdict] += 1
                total[verdict] += 1
                if verdict == "WRONG" or why and verdict == "none":
                    print(line[:400])
            batch = batch[len(lines):]
            if run.returncode in (0, 1) or not batch:
                continue
            name = pathlib.Path(batch[0]).name
            print(f"WRONG {name}: the program ended with status {run.returncode}: {run.stderr.strip()[-300:]}")
            results[by_name[name]]["WRONG"] += 1
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
