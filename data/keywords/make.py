#!/usr/bin/python3
"""Makes spoken words with espeak-ng, and writes their spectra as HDF5 files for HDF5Data layers.

  data/keywords/make.py [FOLDER] [--train N] [--test N]

FOLDER: default data/keywords/full. --train: readings of the training set, default 342. --test: those of the test set, 95.

Needs espeak-ng, numpy and h5py: apt install espeak-ng python3-numpy python3-h5py. That is why the first line names Debian's
python3; for another one, run `python3 data/keywords/make.py`.

Ten words. A reading is all of them by one voice in one accent, at a random speed and pitch, in random order, with breaks of
0.9 s, where they are cut. Each word is trimmed and laid at a random place of 0.93 s. The voices of the test set do not occur
in the training set. Each word of a reading of the training set is written COPIES times, in other places and other noise,
those of the test set once. The noise is white or pink, 5 to 25 dB below the word (root mean square of the whole 0.93 s).

Features: the logarithm of the power in 40 mel bands from 60 to 8,000 Hz, of 64 frames of 512 samples every 320 samples
(22,050 Hz); the mean of each example is 0 and its deviation 1.

FOLDER/train.h5 and FOLDER/test.h5 have `data` (examples, 1, 40, 64), in f16, and `label` (examples). FOLDER/train.txt and
FOLDER/test.txt list them, FOLDER/words.txt the words by label. One version of espeak-ng and numpy gives the same values.
"""
import argparse
import contextlib
import os
import shlex
import shutil
import subprocess
import sys

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the products are small

try:
    import h5py
    import numpy as np
except ImportError as missing:
    sys.exit(f"make.py: error: {missing} ({sys.executable}); apt install espeak-ng python3-numpy python3-h5py")

WORDS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"]
ACCENTS = ["en-gb", "en-us", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-029", "en-us-nyc"]
TRAIN_VOICES = ["m1", "m2", "m3", "m4", "m5", "m6", "f1", "f2", "f3", "f4", "klatt", "klatt2", "klatt3", "Alex", "Andrea", "Annie",
                "Denis", "Gene", "Jacky", "Lee", "Mario", "Michael", "adam", "anika", "belinda", "boris", "ed", "edward", "linda", "max",
                "michel", "paul", "rob", "robert", "sandro", "steph", "victor", "zac"]
TEST_VOICES = ["m7", "m8", "f5", "klatt4", "Alicia", "Andy", "Hugo", "Marco", "Mike", "caleb", "david", "grandma", "john", "marcelo",
               "norbert", "pedro", "quincy", "shelby", "travis"]
TRAIN_READINGS, TEST_READINGS, COPIES = 342, 95, 3
RATE, FRAME, HOP, FRAMES, BANDS = 22050, 512, 320, 64, 40
SAMPLES = FRAME + HOP * (FRAMES - 1)


def speak(words, accent, voice, speed, pitch):
    """The samples of each word, from the first to the last one that is not silent."""
    text = ' <break time="900ms"/> '.join(word + "." for word in words)
    command = ["espeak-ng", "-m", "-v", f"{accent}+{voice}", "-s", str(speed), "-p", str(pitch), "--stdout", text]
    result = subprocess.run(command, capture_output=True)
    wave = result.stdout
    begin = wave.find(b"data") + 8  # the length in the header is not that of a pipe
    samples = np.frombuffer(wave[begin:len(wave) - (len(wave) - begin) % 2], "<i2").astype(np.float64)
    if result.returncode or not wave.count(b"data") or not samples.any():
        sys.exit(f"make.py: error: this gives no sound (exit status {result.returncode}); is espeak-ng whole?\n"
                 f"  {shlex.join(command)}\n" + result.stderr.decode(errors="replace"))
    loud = np.flatnonzero(np.abs(samples) > 0.01 * np.abs(samples).max())
    breaks = np.flatnonzero(np.diff(loud) > 0.4 * RATE)
    if len(breaks) + 1 != len(words):
        sys.exit(f"make.py: error: this speaks {len(breaks) + 1} words in place of {len(words)}; Debian's espeak-ng 1.51 "
                 f"speaks all\n  {shlex.join(command)}")
    return [samples[first:last + 1] for first, last in zip(loud[np.r_[0, breaks + 1]], loud[np.r_[breaks, -1]])]


def mel_bands():
    """(BANDS, FRAME / 2 + 1): triangles, evenly spaced in mel."""
    mel = np.linspace(*(2595 * np.log10(1 + np.array([60, 8000]) / 700)), BANDS + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    frequency = np.fft.rfftfreq(FRAME, 1 / RATE)
    rise = (frequency - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - frequency) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(rise, fall))


def noises(random):
    """White and pink noise, a minute of each."""
    white = random.standard_normal(2 ** 20)
    spectrum = np.fft.rfft(random.standard_normal(2 ** 20))
    spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
    spectrum[:40] = 0  # below 1 Hz, it would be an offset
    return white, np.fft.irfft(spectrum)


def place(word, noise, random):
    """(SAMPLES): the word at a random place, in a part of one of the noises."""
    word = word[:SAMPLES]
    samples = np.zeros(SAMPLES)
    begin = random.integers(SAMPLES - len(word) + 1)
    samples[begin:begin + len(word)] = word
    noise = noise[random.integers(len(noise))]
    begin = random.integers(len(noise) - SAMPLES)
    noise = noise[begin:begin + SAMPLES]
    below = 10 ** (-random.uniform(5, 25) / 20)
    return samples + noise * below * np.sqrt(np.mean(samples ** 2) / np.mean(noise ** 2))


def features(samples, bands):
    """(1, BANDS, FRAMES)"""
    frames = np.lib.stride_tricks.sliding_window_view(samples, FRAME)[::HOP] * np.hanning(FRAME)
    power = np.abs(np.fft.rfft(frames)) ** 2
    values = np.log(bands @ power.T + 1e-3)
    return ((values - values.mean()) / values.std())[None]


def from_root(path):
    """The path from the root of the repository, where crema runs. That of a file elsewhere is absolute."""
    root, path = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..")), os.path.realpath(path)
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else path


def write(folder, name, voices, readings, copies, noise, bands, random):
    data, labels = [], []
    for reading in range(readings):
        order = random.permutation(len(WORDS))
        words = speak([WORDS[label] for label in order], ACCENTS[random.integers(len(ACCENTS))], voices[reading % len(voices)],
                      random.integers(110, 211), random.integers(20, 81))
        for label, word in zip(order, words):
            data += [features(place(word, noise, random), bands) for _ in range(copies)]
            labels += [label] * copies
    path = f"{folder}/{name}.h5"
    with h5py.File(path + ".part", "w") as file:
        file["data"] = np.array(data, np.float16)
        file["label"] = np.array(labels, np.int32)
    os.replace(path + ".part", path)
    with open(f"{folder}/{name}.txt", "w") as file:
        file.write(from_root(path) + "\n")
    print(f"{path}: {len(labels)} examples of {len(WORDS)} words by {len(voices)} voices")


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number above 0")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default=os.path.join(os.path.dirname(__file__), "full"))
    parser.add_argument("--train", type=positive, default=TRAIN_READINGS)
    parser.add_argument("--test", type=positive, default=TEST_READINGS)
    args = parser.parse_args()
    folder = args.folder
    if not shutil.which("espeak-ng"):
        sys.exit("make.py: error: espeak-ng, which speaks the words, is not there; apt install espeak-ng")
    os.makedirs(folder, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.remove(f"{folder}/test.txt")  # is written last: the set is not whole from here on
    random = np.random.default_rng(1)
    noise, bands = noises(random), mel_bands()
    with open(f"{folder}/words.txt", "w") as file:
        file.writelines(word + "\n" for word in WORDS)
    write(folder, "train", TRAIN_VOICES, args.train, COPIES, noise, bands, random)
    write(folder, "test", TEST_VOICES, args.test, 1, noise, bands, random)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"make.py: error: {error}")
