#!/usr/bin/env python3
"""Usage: cartpole_dqn.py train SOLVER DEPLOY [SEED] | cartpole_dqn.py play DEPLOY WEIGHTS"""
import math
import sys

import numpy as np
import crema

LONGEST, WARM_UP, STEPS_PER_UPDATE, EXPLORATION = 500, 1000, 4, 5000
DISCOUNT, LOOK_AHEAD, TARGET_INTERVAL = 0.99, 5, 50


def push(state, action):
    """Pushes the cart to the left (0) or right (1) for 0.02 s: new state, if the pole stands."""
    x, speed, angle, turn = state  # m, m/s, rad, rad/s
    sine, cosine = math.sin(angle), math.cos(angle)
    force = ((10 if action else -10) + 0.05 * turn * turn * sine) / 1.1
    turning = (9.8 * sine - cosine * force) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
    x, angle, turn_after = x + 0.02 * speed, angle + 0.02 * turn, turn + 0.02 * turning
    speed += 0.02 * (force - 0.05 * turning * cosine / 1.1)
    return [x, speed, angle, turn_after], abs(x) <= 2.4 and abs(angle) <= math.radians(12)


def best_action(net, state):
    return int(net.forward(state=np.array([state]))["q"].argmax())


def play(net, episodes, seed):
    steps = 0
    for state in np.random.default_rng(seed).uniform(-0.05, 0.05, (episodes, 4)).tolist():
        stands, end = True, steps + LONGEST
        while stands and steps < end:
            (state, stands), steps = push(state, best_action(net, state)), steps + 1
    return steps / episodes


def learn(solver, target, memory, rng):
    first = rng.integers(len(memory), size=len(target.blobs["state"]))
    last = first.copy()
    for _ in range(LOOK_AHEAD - 1):  # to the end of the episode at most
        last += ~memory["ends"][last] & (last + 1 < len(memory))
    q = target.forward(state=memory["after"][last])["q"].max(1)
    behind = np.where(memory["stands"][last], DISCOUNT * np.minimum(q, 0), -1)
    solver.net.blobs["state"].data[...] = memory["before"][first]
    solver.net.blobs["taken"].data[...] = np.eye(2)[memory["action"][first]]
    solver.net.blobs["believed"].data[...] = (DISCOUNT ** (last - first) * behind)[:, None]
    solver.step(1)


def train(settings, deploy, seed):
    solver, target = crema.Solver(settings, seed=seed), crema.Net(deploy)
    actor = crema.Net(deploy, share_with=solver.net)
    target.blobs["state"].reshape(*solver.net.blobs["state"].shape)
    rng, state, length, steps = np.random.default_rng(seed), [0.0] * 4, 0, 0
    memory = np.zeros(WARM_UP + STEPS_PER_UPDATE * solver.max_iterations, [
        ("before", "f4", 4), ("after", "f4", 4), ("action", int), ("stands", "?"), ("ends", "?")])
    while solver.iteration < solver.max_iterations:
        before = state if length else rng.uniform(-0.05, 0.05, 4).tolist()
        guess = rng.random() < max(1 - solver.iteration / EXPLORATION, 0.05)
        action = int(rng.integers(2)) if guess else best_action(actor, before)
        state, stands = push(before, action)
        ends = not stands or length + 1 == LONGEST
        memory[steps] = before, state, action, stands, ends
        length, steps = 0 if ends else length + 1, steps + 1
        if steps > WARM_UP and steps % STEPS_PER_UPDATE == 0:
            if solver.iteration % TARGET_INTERVAL == 0:
                target.load(solver.net.to_bytes())
            learn(solver, target, memory[:steps], rng)
            if solver.iteration % 1000 == 0:
                print(solver.iteration, "updates: mean return", play(actor, 10, seed), flush=True)
    return solver.snapshot()


if sys.argv[1:2] == ["train"] and len(sys.argv) in (4, 5):
    print(train(sys.argv[2], sys.argv[3], int((sys.argv + ["1"])[4])))
elif sys.argv[1:2] == ["play"] and len(sys.argv) == 4:
    print("mean return of 100 episodes:", play(crema.Net(sys.argv[2], sys.argv[3]), 100, 10**9))
else:
    sys.exit(__doc__)
