#!/usr/bin/env python3
"""Times a model of ONNX in onnxruntime or OpenVINO on the CPU (see scripts/bench).

    scripts/bench_onnx.py --model resnet50.onnx --engine openvino --threads 2

Prints one line of JSON: the median in milliseconds. Both compute in f32 (`INFERENCE_PRECISION_HINT` of OpenVINO), with
`--threads` threads. Inputs are random values, those named `zeros` zeros. Needs numpy, and onnxruntime or openvino.
"""

import argparse
import json
import statistics
import time

import numpy


def values_of(name, shape):
    values = numpy.random.default_rng(1).random(shape, dtype=numpy.float32)
    return values * 0 if name == "zeros" else values


def onnxruntime_run(path, threads):
    """The version of onnxruntime, and a function that runs the model once."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    values = {i.name: values_of(i.name, i.shape) for i in session.get_inputs()}
    return f"onnxruntime {onnxruntime.__version__}", lambda: session.run(None, values)


def openvino_run(path, threads):
    """The version of OpenVINO, and a function that runs the model once."""
    import openvino

    settings = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
    compiled = openvino.Core().compile_model(path, "CPU", settings)
    request = compiled.create_infer_request()
    values = {i.get_any_name(): values_of(i.get_any_name(), list(i.shape)) for i in compiled.inputs}
    return f"OpenVINO {openvino.__version__.split('-')[0]}", lambda: request.infer(values, share_inputs=True)


ENGINES = {"onnxruntime": onnxruntime_run, "openvino": openvino_run}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", required=True, help="the .onnx file")
    parser.add_argument("--engine", required=True, choices=ENGINES)
    parser.add_argument("--iterations", type=int, default=10, help="timed runs (default 10)")
    parser.add_argument("--warmup", type=int, default=2, help="untimed runs before (default 2)")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.iterations < 1 or args.warmup < 0 or args.threads < 1:
        parser.error("--iterations and --threads have to be at least 1, --warmup at least 0")
    engine, run = ENGINES[args.engine](args.model, args.threads)
    times = []
    for _ in range(args.warmup + args.iterations):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    print(json.dumps({"engine": engine, "forward_ms": statistics.median(times[args.warmup:]), "threads": args.threads}))


if __name__ == "__main__":
    main()
