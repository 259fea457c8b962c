"""What the layers above the transports and backends know of shared memory: nothing, but where a world chooses its parts.

An engine is told what it has to reach the others with (`engine/membership/connections.h`). So a way to reach them is one folder
and one case in `engine/process/world.cc`, and agreement is the same over all of them.
"""

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"
FOLDERS = ("agreement", "control", "types", "engine")
#: Where the parts are chosen: of a job, and of the jobs and hosts in one process that tests run over.
CHOOSERS = ("engine/process/world.", "engine/process/world_connections.", "engine/testing/world.")
CHOSEN_FOR_TESTS = {"engine/process/world_connections.h", "engine/testing/world.h", "transport/loopback/testing/host.h"}
#: A futex within a process shares nothing.
PRIVATE_FUTEX = "base/futex.h"
OF_SHARED_MEMORY = {"arena", "heap", "futex", "region"}

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r"//.*?$|/\*.*?\*/", re.MULTILINE | re.DOTALL)


def names_of_private_futex():
    names = re.findall(r"\w*futex\w*", (SOURCES / PRIVATE_FUTEX).read_text(encoding="utf-8"), flags=re.IGNORECASE)
    return {name for name in names if name.lower() != "futex"} | {PRIVATE_FUTEX}


def words_of_shared_memory(text):
    """Those in identifiers and sentences, by line: HostArena, heap_bytes, futexes."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        for word in WORD.findall(line):
            lower = word.lower()
            if {lower, lower.removesuffix("s"), lower.removesuffix("es")} & OF_SHARED_MEMORY:
                found.append((number, word))
    return found


def known_of_shared_memory(path, text):
    """What a file of those folders should not know; empty if all is well."""
    allowed = names_of_private_futex()
    code = re.sub("|".join(rf"\b{re.escape(name)}\b" for name in sorted(allowed, key=len, reverse=True)), "", text)
    known = [f"{path}:{number}: {word}" for number, word in words_of_shared_memory(code)]
    for header in INCLUDE.findall(text):
        if way := way_to_shared_memory(header):
            known.append(f"{path}: includes {' > '.join(way)}")
    return known


@functools.cache
def way_to_shared_memory(header):
    """The headers by which one that declares something of shared memory is reached; empty if none is."""
    paths = [folder / header for folder in (SOURCES, ROOT / "tests") if (folder / header).exists()]
    if not paths or header in CHOSEN_FOR_TESTS | {PRIVATE_FUTEX}:
        return []
    text = paths[0].read_text(encoding="utf-8")
    if words_of_shared_memory(header + "\n" + COMMENT.sub("", INCLUDE.sub("", text))):  # its comments may speak of it
        return [header]
    ways = (way_to_shared_memory(included) for included in INCLUDE.findall(text))
    return next(([header, *way] for way in ways if way), [])


def files_that_must_not_know():
    for folder in FOLDERS:
        for path in sorted((SOURCES / folder).rglob("*")):
            name = str(path.relative_to(SOURCES))
            if path.is_file() and not name.startswith(CHOOSERS):
                yield name


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_of_shared_memory_is_known(folder):
    files = [name for name in files_that_must_not_know() if name.startswith(f"{folder}/")]
    assert files
    known = [what for name in files for what in known_of_shared_memory(name, (SOURCES / name).read_text(encoding="utf-8"))]
    assert not known, "\n".join(known)


@pytest.mark.parametrize(
    "line",
    [
        '#include "transport/arena/arena.h"',
        '#include "transport/arena/host_peers.h"',
        '#include "backend/shm/shm.h"',
        '#include "collectives/persistent/bucket.h"',
        "  transport::HostArena& arena_;",
        "  std::size_t heap_bytes = 0;",
        "/// Of the ranks' heaps.",
        "  shared_futex(word);",
        "  RegionLayout layout;",
    ],
)
def test_a_name_that_is_put_in_is_seen(line):
    assert known_of_shared_memory("engine/x.h", f"int above = 0;\n{line}\n")


@pytest.mark.parametrize(
    "line",
    [
        '#include "base/futex.h"',
        '#include "transport/reachable_memory.h"',
        '#include "engine/membership/connections.h"',
        "  futex_wake_all(calls_);",
        "TEST(EngineEnd, RanksThatLeaveInTheMiddleAreNamed) {",
        "/// Cheap.",
    ],
)
def test_what_is_no_such_name_is_not_taken_for_one(line):
    assert not known_of_shared_memory("engine/x.h", f"{line}\n")


def test_those_who_choose_are_few_and_there():
    known = {name for path in (SOURCES / "engine").rglob("*") if (name := str(path.relative_to(SOURCES))).startswith(CHOOSERS)}
    world, connections = "engine/process/world.{}", "engine/process/world_connections.{}"
    assert known == {each.format(end) for each in (world, connections) for end in ("cc", "h")} | {"engine/testing/world.h"}


def folders_that_include_each_other():
    """Those of the sources, tests apart, that are in a circle or need one that is; empty if every arrow points down."""
    below = {}
    for path in [*SOURCES.rglob("*.h"), *SOURCES.rglob("*.cc")]:
        if path.stem.endswith("_test") or "testing" in path.parts:
            continue
        folder = path.parent.relative_to(SOURCES)
        headers = [Path(header) for header in INCLUDE.findall(path.read_text(encoding="utf-8")) if (SOURCES / header).exists()]
        below.setdefault(folder, set()).update(header.parent for header in headers if header.parent != folder)
    while free := {folder for folder in below if not below[folder] & below.keys()}:
        below = {folder: others for folder, others in below.items() if folder not in free}
    return sorted(map(str, below))


def test_no_folders_include_each_other():
    assert folders_that_include_each_other() == []
