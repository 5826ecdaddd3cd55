#!/usr/bin/env python3
"""Prints how many test digits LeNet classifies once they are changed to deceive it.

    attack.py TRAIN_VAL WEIGHTS [DIGITS]

TRAIN_VAL: the net whose test data are read. DIGITS: how many of them, from the first on (1000).
"""

import os
import sys

import numpy as np
from art.attacks.evasion import FastGradientMethod, ProjectedGradientDescent
from crema_classifier import CremaClassifier

import crema

DEPLOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "deploy.prototxt")


def read_digits(train_val, count):
    """Test digits as the data layer gives them, (count, 1, 28, 28) in [0, 1), and their labels."""
    net = crema.Net(train_val, phase=crema.TEST)
    digits, labels = [], []
    while sum(map(len, labels)) < count:
        net.forward(end="data")
        digits.append(net.blobs["data"].data.copy())
        labels.append(net.blobs["label"].data.ravel().astype(int))
    return np.concatenate(digits)[:count], np.concatenate(labels)[:count]


def main(train_val, weights, count="1000"):
    digits, labels = read_digits(train_val, int(count))
    classifier = CremaClassifier(DEPLOY, weights)

    def accuracy(shown):
        return f"{(classifier.predict(shown).argmax(1) == labels).mean():.1%}"

    print(f"{len(digits)} digits as they are: {accuracy(digits)}")
    print("largest change   FGSM    PGD")
    for eps in (0.05, 0.1, 0.2, 0.3):
        attacks = (FastGradientMethod(classifier, eps=eps),
                   ProjectedGradientDescent(classifier, eps=eps, eps_step=eps / 10, max_iter=40,
                                            verbose=False))
        made = [accuracy(attack.generate(digits, labels)) for attack in attacks]
        print(f"{eps:14.2f} {made[0]:>6} {made[1]:>6}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
