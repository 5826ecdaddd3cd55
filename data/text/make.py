#!/usr/bin/env python3
"""Writes a text as sequences of characters, in a form that Data layers read.

  data/text/make.py [TEXT] [FOLDER] [--streams N] [--length T]

TEXT: default data/text/full/bible.txt (data/text/get.sh), FOLDER: default data/text/full, N: default 32, T: default 128.

FOLDER/characters.txt gets the characters that occur, in the order of their codes; the place of a character is its number.
FOLDER/train.tar and FOLDER/test.tar get the sequences, each a gray image (PGM) of 3 x T pixels. The rows are:

  0  the numbers of T characters
  1  the numbers of the characters that follow them
  2  0 where a recurrent layer begins with a new state, else 1: its bottom `cont`

The text of a set is cut into N streams of one length, and each stream into sequences. Image i + N continues image i: batches
of N, in their order, let a recurrent layer carry its state through the streams. It begins with a new state at the first
character of each 16th sequence, so that it learns to begin.

Of each 2,000 lines of the text, the last 100 are the test set; of a shorter text, the last twentieth. In bible.txt, the
first line and the place at the head of each line are left out. A character that is not printable ASCII becomes a blank. The
same text gives the same bytes, whose checksums are printed.
"""
import argparse
import hashlib
import io
import os
import re
import sys
import tarfile

BLOCK = 100  # lines
BLOCKS = 20  # the last of so many is for the test
CARRIED = 16  # sequences through which a state is carried


def read_lines(path):
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        sys.exit(f"make.py: error: {error}; name a text, or get one with data/text/get.sh")
    text = text.replace(b"\r\n", b"\n").decode("latin-1")
    lines = [re.sub(r"[^ -~]", " ", line) for line in text.split("\n")]
    if os.path.basename(path) == "bible.txt":
        lines = [re.sub(r"^\w+:\d+ ", "", line) for line in lines[1:]]
    return lines


def write(path, numbers, streams, length):
    """numbers: those of the characters of one set, as bytes."""
    parts = (len(numbers) - 1) // (streams * length)
    if parts == 0:
        sys.exit(f"make.py: error: {path} would have {len(numbers)} characters; "
                 f"{streams} streams of {length} need {streams * length + 1} at least")
    with tarfile.open(path + ".part", "w", format=tarfile.USTAR_FORMAT) as tar:
        for part in range(parts):
            for stream in range(streams):
                at = (stream * parts + part) * length
                goes_on = bytes([part % CARRIED > 0]) + b"\1" * (length - 1)
                image = (b"P5\n%d 3\n255\n" % length + numbers[at:at + length] +
                         numbers[at + 1:at + length + 1] + goes_on)
                member = tarfile.TarInfo(f"text/{part * streams + stream:07d}.pgm")
                member.size = len(image)
                tar.addfile(member, io.BytesIO(image))
    with open(path + ".part", "rb") as file:
        checksum = hashlib.sha256(file.read()).hexdigest()
    os.replace(path + ".part", path)
    print(f"{path}: {parts * streams * length} characters, {parts} batches of {streams} sequences of {length}, "
          f"sha256 {checksum}")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", nargs="?", default=os.path.join(here, "full", "bible.txt"))
    parser.add_argument("folder", nargs="?", default=os.path.join(here, "full"))
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    options = parser.parse_args()
    sets = {"train": [], "test": []}
    lines = read_lines(options.text)
    block = min(BLOCK, max(len(lines) // BLOCKS, 1))
    for number, line in enumerate(lines):
        sets["test" if number // block % BLOCKS == BLOCKS - 1 else "train"].append(line + "\n")
    sets = {name: "".join(lines) for name, lines in sets.items()}
    characters = "".join(sorted(set("".join(sets.values()))))
    number_of = {ord(character): number for number, character in enumerate(characters)}
    os.makedirs(options.folder, exist_ok=True)
    with open(os.path.join(options.folder, "characters.txt"), "w", newline="") as file:
        file.write(characters)
    print(f"{len(characters)} characters: {characters!r}")
    for name, text in sets.items():
        write(os.path.join(options.folder, name + ".tar"), text.translate(number_of).encode("latin-1"),
              options.streams, options.length)


if __name__ == "__main__":
    main()
