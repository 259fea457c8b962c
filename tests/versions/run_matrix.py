#!/usr/bin/env python3
"""Tries Ronde with each version of matrix.toml, and ends with a table: version, face, expected, found, seconds.

    run_matrix.py                     all lines
    run_matrix.py '^jax ' 'keras 3'   those whose "framework version" one of these regular expressions finds
    run_matrix.py --list              tells the lines and does nothing
    run_matrix.py --keep '^jax 0.6'   leaves the environments in build/versions

The exit status is 0 if every face did what is expected of it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List

import environments
from matrix import FACES, FOLDER, ROOT, Face, Line, load, newest

WORK = ROOT / "build" / "versions"
#: It only ends what hangs: a framework's import takes a minute on a loaded machine.
PROGRAM_LIMIT_S = 300
TAIL_LINES = 25


@dataclass
class Finding:
    """What one face has done with one version."""

    line: Line
    face: str
    expected: str
    found: str
    seconds: float
    output: str = ""

    @property
    def ok(self) -> bool:
        """Whether it is what was expected."""
        return self.found == self.expected


def environment_of(face: Face, folder: Path, wrong: bool) -> Dict[str, str]:
    """Only what the programs need of this process's variables: PYTHONPATH, say, would bring in other versions."""
    others = ("PYTHON", "KERAS", "TF_", "JAX", "RONDE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    own = {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu",
           "CUDA_VISIBLE_DEVICES": "", "RONDE_PROBE": "0", "RONDE_TIMEOUT_S": "120", "KERAS_HOME": str(folder / "keras")}
    return {**kept, **own, **face.environment, **({"RONDE_VERSIONS_WRONG": "1"} if wrong else {})}


def run_program(face: Face, folder: Path, wrong: bool) -> "tuple[int, str]":
    """The exit status of two ranks, and what they have printed."""
    program, *arguments = face.command
    command = [folder / "bin/ronde", "run", "-n", "2", "--", folder / "bin/python", FOLDER / "programs" / program, *arguments]
    with subprocess.Popen([str(part) for part in command], cwd=folder, env=environment_of(face, folder, wrong),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=PROGRAM_LIMIT_S)
            return process.returncode, output
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return 124, f"{process.communicate()[0]}\nended: it took longer than {PROGRAM_LIMIT_S} s"


def judged(expected: str, status: int, output: str) -> str:
    """What was found, in the words of the expectation where it fits."""
    if status == 0:
        return "works"
    kind, _, words = expected.partition(": ")
    # The line with which a traceback of one of the ranks ends; one that is refused was refused by an ImportError of Ronde's.
    last = re.findall(r"^\[\d\] (\w[\w.]*(?:Error|Exception)\b.*)$", output, flags=re.MULTILINE)
    if kind == "refused" and any(each.startswith("ImportError: ronde.") and words in each for each in last):
        return expected
    if kind == "fails" and words in output:
        return expected
    return f"fails: {last[-1] if last else output.strip().splitlines()[-1:]}"


def try_line(line: Line, folder: Path, wheel: Path, is_newest: bool) -> List[Finding]:
    """One finding for each face, and of the newest version one more: that its checks fail when they must."""
    began = time.monotonic()
    try:
        environments.make(line, folder, wheel)
    except environments.InstallationError as error:
        seconds = time.monotonic() - began
        return [Finding(line, face, expected, "not installed", seconds, str(error)) for face, expected in line.expected.items()]
    print(f"{line.name}: installed in {time.monotonic() - began:.0f} s", flush=True)
    findings = []
    for face, expected in line.expected.items():
        for wrong in (False, True) if is_newest and expected == "works" else (False,):
            began = time.monotonic()
            status, output = run_program(FACES[face], folder, wrong)
            name = f"{FACES[face].title}{', made wrong' if wrong else ''}"
            found = judged(expected, status, output)
            findings.append(Finding(line, name, expected, found, time.monotonic() - began, output))
            print(f"  {name}: {found}, {findings[-1].seconds:.0f} s", flush=True)
            if not findings[-1].ok:
                print(tail(findings[-1]), flush=True)
    return findings


def tail(finding: Finding) -> str:
    """The last lines of the output."""
    return "\n".join(f"    {row}" for row in finding.output.rstrip().splitlines()[-TAIL_LINES:])


def print_table(findings: List[Finding], left: List[Line]) -> None:
    """The differences once more at the end, since of a long run often only the last lines are kept."""
    row = "{:<24} {:<36} {:<34} {:<34} {:>7}"
    print("\n" + row.format("version", "face", "expected", "found", "seconds"))
    for each in findings:
        found = each.found if each.ok else f"!! {each.found}"
        print(row.format(each.line.name, each.face, each.expected, found, f"{each.seconds:.0f}"))
    for line in left:
        print(f"not tried here: {line.name}: {line.not_tried}")
    for each in findings:
        if not each.ok:
            print(f"\n{each.line.name}, {each.face}: expected {each.expected}, found {each.found}\n{tail(each)}")
    differ = sum(not each.ok for each in findings)
    print(f"{len(findings) - differ} as expected, {differ} not, {len(left)} versions not tried")


def write_junit(path: Path, findings: List[Finding], left: List[Line]) -> None:
    """For tools/test."""
    suite = ElementTree.Element("testsuite", name="versions")
    for each in findings:
        case = ElementTree.SubElement(suite, "testcase", classname=each.line.name, name=each.face, time=f"{each.seconds:.1f}")
        if not each.ok:
            text = "".join(character for character in tail(each) if character.isprintable() or character == "\n")
            ElementTree.SubElement(case, "failure").text = f"expected {each.expected}, found {each.found}\n{text}"
    for line in left:
        case = ElementTree.SubElement(suite, "testcase", classname=line.name, name="all", time="0")
        ElementTree.SubElement(case, "skipped", message=line.not_tried)
    ElementTree.ElementTree(suite).write(path, encoding="unicode")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", help='regular expressions for "framework version"')
    parser.add_argument("--list", action="store_true", help="tell the lines and do nothing")
    parser.add_argument("--keep", action="store_true", help="leave the environments in build/versions")
    parser.add_argument("--junit", type=Path, help="write the results to this file too")
    arguments = parser.parse_args()
    everything = load()
    lines = [line for line in everything
             if not arguments.patterns or any(re.search(pattern, line.name) for pattern in arguments.patterns)]
    if not lines:
        parser.error("no line of the matrix is found by these")
    if arguments.list:
        print("\n".join(f"{line.name}: {line.expected}" for line in lines))
        return 0
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    wheel = environments.pack_wheel(WORK)
    findings: List[Finding] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the program under way is ended as well
    for line in lines:
        if line.not_tried:
            continue
        folder = WORK / line.name.replace(" ", "-")
        try:
            findings += try_line(line, folder, wheel, newest(everything)[line.framework] == line)
        finally:
            if not arguments.keep:
                shutil.rmtree(folder, ignore_errors=True)
    left = [line for line in lines if line.not_tried]
    print_table(findings, left)
    if arguments.junit:
        write_junit(arguments.junit, findings, left)
    return 0 if all(each.ok for each in findings) else 1


if __name__ == "__main__":
    sys.exit(main())
