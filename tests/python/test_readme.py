"""The lines of Python on the front page, as they stand there, on the digits that ship."""

import glob
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def section(heading):
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_the_front_page_trains_lenet_and_names_a_digit(tmp_path):
    text = section("Python in ten lines")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len([line for line in code.splitlines() if line]) == 10
    (words,) = re.findall(r"`crema (convert-mnist [^`]*)`", text)
    # What a clone has, without what was made in it.
    digits = tmp_path / "data" / "mnist" / "mini"
    digits.mkdir(parents=True)
    for file in glob.glob(os.path.join(ROOT, "data", "mnist", "mini", "*-ubyte.gz")):
        shutil.copy(file, digits)
    shutil.copytree(os.path.join(ROOT, "models", "lenet"), tmp_path / "models" / "lenet",
                    ignore=shutil.ignore_patterns("*.caffemodel", "*.solverstate"))
    converted = subprocess.run([sys.executable, "-m", "crema", *words.split()], cwd=tmp_path,
                               check=True, capture_output=True, text=True, timeout=120)
    # The program tells what it does, unlike the package.
    assert "4000" in converted.stderr, converted
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True,
                         timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    named, label = re.search(r"named (\d) and is (\d)", ran.stdout).groups()
    assert named == label


def test_the_program_is_the_same_as_a_module_and_as_a_script(tmp_path):
    def said(*words):
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120,
                              check=True).stdout

    as_module = said(sys.executable, "-m", "crema", "--version")
    script = "import sys; from crema.__main__ import main; sys.exit(main())"
    as_script = said(sys.executable, "-c", script, "--version")
    assert as_module == as_script
    assert re.fullmatch(r"crema \d+\.\d+\.\d+\n", as_module)
    # In a folder that has no models: those that come with the package.
    assert re.search(r"^lenet\b", said(sys.executable, "-m", "crema", "models"), re.M)
    assert "quickstart_solver.prototxt" in said(
        sys.executable, "-m", "crema", "models", "lenet", "--copy", str(tmp_path / "copied"))
