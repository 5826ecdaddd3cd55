#!/usr/bin/env python3
"""Times a net of models/ in PyTorch on a GPU, in several ways in one process (see scripts/bench --gpu).

    scripts/bench_torch_gpu.py --net resnet50 --batch 256 --columns tf32,bf16,compiled
    scripts/bench_torch_gpu.py --net resnet50 --inference --columns bf16,graphs

A training step is forward, loss, backward and SGD with momentum (foreach), with data that lie on the
device. cudnn.benchmark is on, and nets of images are channels-last, unless --format contiguous says
otherwise. Prints a line of JSON for each column when it is measured, so that a limit of time leaves
those before it: milliseconds of an iteration, of several one behind the other, the largest memory
that tensors took and that PyTorch reserved, and the seconds until the first iteration was timed.

| column | training | inference |
|---|---|---|
| f32 | f32, TF32 off | the same |
| tf32 | f32, TF32 on | the same |
| bf16 | autocast to bf16 | the net in bf16 |
| compiled | bf16 and torch.compile | the same |
| graphs | the same with mode="reduce-overhead" (CUDA graphs) | the same |
| tf32_graphs | | TF32 with torch.compile and CUDA graphs |
| onnxruntime | | f32 in onnxruntime's CUDA provider |
"""

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time

import torch
from torch import nn

from torch_nets import NETS

TRAINING = ("f32", "tf32", "bf16", "compiled", "graphs")
INFERENCE = ("f32", "tf32", "bf16", "compiled", "graphs", "tf32_graphs", "onnxruntime")
FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


class Device:
    """Where it runs; the CPU is there to try the script."""

    def __init__(self, name):
        self.name = name
        self.is_cuda = name.startswith("cuda")

    def wait(self):
        if self.is_cuda:
            torch.cuda.synchronize()

    def milliseconds(self, step, iterations):
        """Of `iterations` steps one behind the other, without waiting between them."""
        self.wait()
        if not self.is_cuda:
            start = time.perf_counter()
            for _ in range(iterations):
                step()
            return 1e3 * (time.perf_counter() - start)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(iterations):
            step()
        last.record()
        self.wait()
        return first.elapsed_time(last)

    def begin_memory(self):
        if self.is_cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def memory(self):
        if not self.is_cuda:
            return 0.0, 0.0
        return torch.cuda.max_memory_allocated() / 1e6, torch.cuda.max_memory_reserved() / 1e6


def loss_of(scores, label):
    # Labels of the shape of the scores are images.
    return (nn.functional.mse_loss if label.shape == scores.shape else nn.functional.cross_entropy)(scores, label)


def set_tf32(on):
    torch.backends.cuda.matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on


def onnxruntime_step(net, data, device):
    import onnxruntime

    providers = onnxruntime.get_available_providers()
    if device.is_cuda and "CUDAExecutionProvider" not in providers:
        raise RuntimeError(f"onnxruntime {onnxruntime.__version__} has no CUDA provider, only {', '.join(providers)}")
    provider = "CUDAExecutionProvider" if device.is_cuda else "CPUExecutionProvider"
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        torch.onnx.export(net, (data,), file.name, input_names=["data"], external_data=False, verbose=False)
        session = onnxruntime.InferenceSession(file.name, providers=[provider])
    kind = "cuda" if device.is_cuda else "cpu"
    binding = session.io_binding()
    binding.bind_input("data", kind, 0, "float32", tuple(data.shape), data.data_ptr())
    binding.bind_output(session.get_outputs()[0].name, kind)
    return lambda: session.run_with_iobinding(binding)


def make_step(args, column, device):
    """Builds the net anew, so that nothing of another column is left. Returns the step."""
    torch.manual_seed(1)
    set_tf32(column not in ("f32",))
    torch.backends.cudnn.benchmark = True
    if column in ("compiled", "graphs", "tf32_graphs"):
        torch._dynamo.reset()
    build, shape, classes = NETS[args.net]
    shape = (args.batch, *shape[1:]) if args.batch and len(shape) == 4 else shape
    memory_format = FORMATS[args.format] if len(shape) == 4 else torch.contiguous_format
    net = build().to(device.name, memory_format=memory_format).train(not args.inference)
    data = torch.rand(shape, device=device.name).contiguous(memory_format=memory_format)
    in_bf16 = column in ("bf16", "compiled", "graphs")
    modes = {"compiled": "default", "graphs": "reduce-overhead", "tf32_graphs": "reduce-overhead"}

    if args.inference:
        if column == "onnxruntime":
            return onnxruntime_step(net, data, device)
        if in_bf16:
            net, data = net.to(torch.bfloat16), data.to(torch.bfloat16)
        run = torch.compile(net, mode=modes[column]) if column in modes else net

        @torch.inference_mode()
        def infer():
            run(data)
        return infer

    with torch.no_grad():
        scores = net(data)
        label = (torch.randint(classes, (len(scores), *scores.shape[2:]), device=device.name) if classes
                 else torch.rand_like(scores))
    run = torch.compile(net, mode=modes[column]) if column in modes else net
    # So slow that the weights stay where they are.
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-9, momentum=0.9, weight_decay=5e-4, foreach=True)
    autocast = torch.autocast(device.name.split(":")[0], dtype=torch.bfloat16) if in_bf16 else contextlib.nullcontext()

    def train():
        optimizer.zero_grad(set_to_none=True)
        with autocast:
            loss = loss_of(run(data), label)
        loss.backward()
        optimizer.step()
    return train


def measure(args, column, device):
    start = time.perf_counter()
    step = make_step(args, column, device)
    for _ in range(args.warmup):
        step()
    device.begin_memory()
    first = device.milliseconds(step, 1)
    # About a second for each of three runs.
    iterations = args.iterations or max(3, min(200, int(1000 / max(first, 0.01))))
    ready = time.perf_counter() - start
    times = [device.milliseconds(step, iterations) / iterations for _ in range(3)]
    allocated, reserved = device.memory()
    return {"total_ms": statistics.median(times), "least_ms": min(times), "largest_ms": max(times),
            "iterations": iterations, "memory_mb": allocated, "taken_mb": reserved, "ready_s": ready}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", required=True, choices=NETS)
    parser.add_argument("--columns", default="tf32,bf16,compiled")
    parser.add_argument("--batch", type=int, help="of nets of images; default: as in torch_nets.py")
    parser.add_argument("--format", default="channels_last", choices=FORMATS)
    parser.add_argument("--iterations", type=int, default=0, help="default: those of a second")
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--inference", action="store_true")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    columns = args.columns.split(",")
    known = INFERENCE if args.inference else TRAINING
    for column in columns:
        if column not in known:
            parser.error(f"no column '{column}'; there are {', '.join(known)}")
    device = Device(args.device)
    if device.is_cuda and not torch.cuda.is_available():
        sys.exit(f"PyTorch {torch.__version__} finds no CUDA device")
    name = torch.cuda.get_device_name() if device.is_cuda else "CPU"
    for column in columns:
        result = {"net": args.net, "column": column, "torch": torch.__version__, "device": name}
        try:
            result.update(measure(args, column, device))
        except Exception as error:  # the other columns can still be measured
            result["failed"] = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
        print(json.dumps(result), flush=True)
        if device.is_cuda:
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
