#!/usr/bin/env python3
"""LeNet as a trial of Ray Tune, and a search over the learning rate, momentum and size.

    lenet_tune.py [DATA [TRIALS]]

DATA: the folder of train_lmdb and test_lmdb (data/mnist/mini). TRIALS: how many (8).
"""

import os
import sys
import tempfile

import crema

HERE = os.path.dirname(os.path.abspath(__file__))
NET = os.path.join(HERE, "..", "quickstart_train_val.prototxt")


def make_solver(config, folder):
    """The solver of a configuration, whose snapshots go to `folder`.

    data: an absolute path. base_lr, momentum, outputs: the learning rate, the momentum, and the
    outputs of ip1. seed: of the weights and of the order of data. iterations: the length.
    """
    with open(NET) as file:
        net = file.read().replace('"data/mnist/mini/', f'"{config["data"]}/')
    # One thread, and engines that no measurement has chosen: each run rounds alike.
    return crema.Solver(f"""
        net_param {{ {net} }}
        test_iter: 10  test_interval: 1000000  test_initialization: false
        base_lr: {config["base_lr"]}  lr_policy: "linear"  max_iter: {config["iterations"]}
        momentum: {config["momentum"]}  weight_decay: 0.0005
        snapshot_prefix: "{folder}/lenet"  snapshot_after_train: false
        """, {"net.ip1.inner_product_param.num_output": config["outputs"]}, seed=config["seed"],
        context=crema.Context(threads=1, tune=False, seed=config["seed"]))


def train(config, report, saved=None):
    """Trains by a configuration, and by nothing else: equal ones give equal results.

    After every config["round"] iterations it calls report(results, folder), with the files of a
    snapshot in the folder. saved: such a folder; the training goes on from it as if it had not
    stopped.
    """
    with tempfile.TemporaryDirectory() as folder:
        solver = make_solver(config, folder)
        if saved is not None:
            states = [name for name in os.listdir(saved) if name.endswith(".solverstate")]
            solver.restore(os.path.join(saved, states[0]))
        while solver.iteration < config["iterations"]:
            solver.step(min(config["round"], config["iterations"] - solver.iteration))
            (test,) = solver.test()
            results = {name: value for name, _, value in test.outputs}
            for name in os.listdir(folder):
                os.remove(os.path.join(folder, name))
            solver.snapshot()
            report({"iteration": solver.iteration, **results}, folder)


def trial(config):
    """What Ray Tune runs: train() with its checkpoints."""
    from ray import tune

    def report(results, folder):
        tune.report(results, checkpoint=tune.Checkpoint.from_directory(folder))

    checkpoint = tune.get_checkpoint()
    if checkpoint is None:
        train(config, report)
    else:
        with checkpoint.as_directory() as saved:
            train(config, report, saved)


def main(data="data/mnist/mini", trials="8"):
    from ray import tune

    space = {"data": os.path.abspath(data), "seed": 1, "iterations": 400, "round": 100,
             "base_lr": tune.loguniform(0.001, 0.1), "momentum": tune.uniform(0.5, 0.95),
             "outputs": tune.choice([100, 250, 500])}
    scheduler = tune.schedulers.ASHAScheduler(
        time_attr="iteration", metric="accuracy", mode="max", grace_period=100, max_t=400)
    tuner = tune.Tuner(
        trial, param_space=space, run_config=tune.RunConfig(verbose=0),
        tune_config=tune.TuneConfig(
            num_samples=int(trials), scheduler=scheduler,
            search_alg=tune.search.BasicVariantGenerator(random_state=1)))
    results = tuner.fit()
    print("base_lr  momentum  outputs  iterations  accuracy")
    for each in sorted(results, key=lambda each: -each.metrics["accuracy"]):
        print(f"{each.config['base_lr']:7.4f}  {each.config['momentum']:8.3f}  "
              f"{each.config['outputs']:7d}  {each.metrics['iteration']:10d}  "
              f"{each.metrics['accuracy']:8.3f}")


if __name__ == "__main__":
    if len(sys.argv) > 3 or "-h" in sys.argv or "--help" in sys.argv:
        sys.exit(__doc__)
    main(*sys.argv[1:])
