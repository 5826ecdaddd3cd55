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
same text gives the same bytes, whose checksums are printed. FOLDER/sha256 gets the one of all files when the set is whole.
"""
import argparse
import hashlib
import io
import os
import re
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from sets import positive, remove_sum, write_sum  # noqa: E402  (the path comes first)

BLOCK = 100  # lines
BLOCKS = 20  # the last of so many is for the test
CARRIED = 16  # sequences through which a state is carried
checksum = hashlib.sha256()  # of the names and bytes of the files


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


def batches(name, text, streams, length):
    """The number of batches that a set gives. An error for none."""
    parts = (len(text) - 1) // (streams * length)
    if parts < 1:
        sys.exit(f"make.py: error: {name}.tar would have {len(text)} characters; "
                 f"{streams} streams of {length} need {streams * length + 1} at least: name a longer text, or give less for "
                 "--streams and --length")
    return parts


def write(folder, name, data):
    """Writes a file, and adds its name and its bytes to the checksum."""
    checksum.update(name.encode() + b"\n" + data)
    with open(f"{folder}/{name}.part", "wb") as file:
        file.write(data)
    os.replace(f"{folder}/{name}.part", f"{folder}/{name}")


def archive(numbers, parts, streams, length):
    """numbers: those of the characters of one set, as bytes."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for part in range(parts):
            for stream in range(streams):
                at = (stream * parts + part) * length
                goes_on = bytes([part % CARRIED > 0]) + b"\1" * (length - 1)
                image = (b"P5\n%d 3\n255\n" % length + numbers[at:at + length] +
                         numbers[at + 1:at + length + 1] + goes_on)
                member = tarfile.TarInfo(f"text/{part * streams + stream:07d}.pgm")
                member.size = len(image)
                tar.addfile(member, io.BytesIO(image))
    return file.getvalue()


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", nargs="?", default=os.path.join(here, "full", "bible.txt"))
    parser.add_argument("folder", nargs="?", default=os.path.join(here, "full"))
    parser.add_argument("--streams", type=positive, default=32)
    parser.add_argument("--length", type=positive, default=128)
    options = parser.parse_args()
    sets = {"train": [], "test": []}
    lines = read_lines(options.text)
    block = min(BLOCK, max(len(lines) // BLOCKS, 1))
    for number, line in enumerate(lines):
        sets["test" if number // block % BLOCKS == BLOCKS - 1 else "train"].append(line + "\n")
    sets = {name: "".join(lines) for name, lines in sets.items()}
    characters = "".join(sorted(set("".join(sets.values()))))
    number_of = {ord(character): number for number, character in enumerate(characters)}
    counts = {name: batches(name, text, options.streams, options.length) for name, text in sets.items()}
    print(f"{len(characters)} characters: {characters!r}")
    os.makedirs(options.folder, exist_ok=True)
    remove_sum(options.folder)
    for name, text in sets.items():
        data = archive(text.translate(number_of).encode("latin-1"), counts[name], options.streams, options.length)
        write(options.folder, name + ".tar", data)
        print(f"{os.path.join(options.folder, name)}.tar: {counts[name] * options.streams * options.length} characters, "
              f"{counts[name]} batches of {options.streams} sequences of {options.length}, sha256 {hashlib.sha256(data).hexdigest()}")
    write(options.folder, "characters.txt", characters.encode())
    write_sum(options.folder, checksum)
    print(f"{options.folder}: sha256 {checksum.hexdigest()}")


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"make.py: error: {error}")
