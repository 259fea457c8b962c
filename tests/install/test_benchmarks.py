"""benchmarks/peers without any peer: what is read from results, said of targets, compared and written."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PEERS = Path(__file__).resolve().parents[2] / "benchmarks/peers"


@pytest.fixture(autouse=True)
def peers_modules(monkeypatch):
    """Its modules have short names: they are importable in these tests only."""
    monkeypatch.syspath_prepend(str(PEERS))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def line(contestant, size, median_us, **more):
    return {"contestant": contestant, "kind": "sweep", "op": "allreduce", "dtype": "float32", "ranks": 2, "bytes": size,
            "place": "in_place", "median_us": median_us, "others": 0.0} | more


def written(path, *lines, **about):
    contestants = {name: {"title": name.capitalize(), "settings": "as | it comes"}
                   for name in ("ronde", "ronde_shared", "memory_bound", "openmpi", "impi", "gloo")}
    head = {"about": "a test", "processor": "one", "date": "2026-01-01", "commit": "abc", "rounds": 3, "cores": 2,
            "kernel": "6.1-x", "quick": False, "contestants": contestants} | about
    path.write_text("".join(json.dumps(each) + "\n" for each in (head, *lines)), encoding="utf-8")
    return path


def rounds(contestant, size, *medians, **more):
    return [line(contestant, size, median, round=number, **more) for number, median in enumerate(medians)]


def test_median_over_rounds_and_the_best_peer(tmp_path):
    from results import load

    found = load(written(tmp_path / "a", *rounds("ronde", 8, 1, 2, 9), *rounds("openmpi", 8, 3, 4, 5),
                         *rounds("impi", 8, 6, 2, 3), *rounds("memory_bound", 8, 1, 1, 1)))
    [cell] = found.cells(kind="sweep")
    assert found.time(cell, "ronde") == 2
    assert found.time(cell, "gloo") is None
    assert found.best_peer([cell]) == ("impi", cell, 3)


def test_targets_take_the_worst_size(tmp_path):
    from results import load
    from targets import private_tensors, shared_buckets

    sizes = (1 << 20, 16 << 20)
    lines = [each for size, ours in zip(sizes, (50, 150)) for each in
             (line("ronde", size, ours), line("openmpi", size, 100), line("impi", size, 200))]
    found = load(written(tmp_path / "a", *lines))
    everything, large = private_tensors(found)
    assert everything[2:] == ["worst 1.50x openmpi (16 MiB in place); 1 of 2 within", "missed"]
    assert large[3] == "missed"
    assert {row[3] for row in shared_buckets(found)} == {"not measured"}


def test_every_target_has_a_row_whatever_was_measured(tmp_path):
    from results import load
    from targets import rows

    empty = rows(load(written(tmp_path / "a")))
    assert len(empty) >= 20
    assert {row[3] for row in empty} == {"not measured"}
    assert [row[:2] for row in rows(load(written(tmp_path / "b", *rounds("ronde", 8, 1))))] == [row[:2] for row in empty]


def test_many_small_is_compared_with_packing(tmp_path):
    from results import load
    from targets import many_small

    def of(contestant, mode, median_us):
        return line(contestant, 3000 << 10, median_us, kind="set", set="3000x1K", mode=mode)

    found = load(written(tmp_path / "a", of("ronde_shared", "async", 600), of("ronde", "blocking", 900),
                         of("impi", "packed", 800), of("impi", "async", 9000), of("openmpi", "blocking", 1100)))
    packed, one_by_one, each = many_small(found)
    assert packed[2].startswith("worst 0.75x impi packed") and packed[3] == "met"
    assert one_by_one[2].startswith("worst 0.55x openmpi blocking") and one_by_one[3] == "missed"
    assert each[2:] == ["0.2 us", "met"]


def test_ddp_over_ronde_is_held_to_ddp_over_gloo(tmp_path):
    from results import load
    from targets import training

    def step(contestant, model, median_us, exposed_us):
        return line(contestant, 4, median_us, kind="training_step", op="training_step", model=model,
                    exposed_us=exposed_us)

    found = load(written(tmp_path / "a", step("gloo", "cnn", 100, 10), step("ronde_ddp", "cnn", 90, 1),
                         step("ronde", "cnn", 91, 2), step("gloo", "mlp_batch_1", 100, 80),
                         step("ronde_ddp", "mlp_batch_1", 60, 40)))
    exposed, everywhere, mostly = training(found)
    assert exposed[2:] == ["worst 0.20x DDP over Gloo (cnn); 1 of 1 within", "met"]
    assert everywhere[2:] == ["worst 0.90x DDP over Gloo (cnn); 2 of 2 within", "met"]
    assert mostly[2:] == ["worst 0.60x DDP over Gloo (mlp_batch_1); 0 of 1 within", "missed"]


def compare(tmp_path, old, new):
    return subprocess.run([sys.executable, PEERS / "check.py", written(tmp_path / "old", *old),
                           written(tmp_path / "new", *new)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)


def test_check_tells_what_became_slower(tmp_path):
    peer = rounds("openmpi", 8, 10, 10, 10)
    result = compare(tmp_path, [*rounds("ronde", 8, 5, 5, 5), *peer], [*rounds("ronde", 8, 7, 7, 7), *peer])
    assert result.returncode == 1
    assert result.stdout.startswith("Slower:\n")
    assert "1.40x" in result.stdout


def test_check_knows_noise_and_the_machine(tmp_path):
    noisy = compare(tmp_path, [*rounds("ronde", 8, 4, 5, 6), *rounds("ronde", 64, 5, 5, 5)],
                    [*rounds("ronde", 8, 5, 6, 7), *rounds("ronde", 64, 4, 4, 4)])
    assert noisy.returncode == 0
    assert noisy.stdout.startswith("Faster:\n") and "1 of 2 figures within the noise" in noisy.stdout
    slower_machine = compare(tmp_path, [*rounds("ronde", 8, 5, 5, 5), *rounds("openmpi", 8, 10, 10, 10)],
                             [*rounds("ronde", 8, 10, 10, 10), *rounds("openmpi", 8, 20, 20, 20)])
    assert slower_machine.returncode == 0
    assert "Changed, but so did the peers" in slower_machine.stdout


def test_check_of_files_with_nothing_in_common(tmp_path):
    result = compare(tmp_path, rounds("ronde", 8, 1), rounds("ronde", 64, 1))
    assert (result.returncode, result.stdout) == (2, "The files have no figure of Ronde's in common.\n")


def test_page_names_what_is_missing(tmp_path):
    import page
    from results import load

    path = written(tmp_path / "a", *rounds("ronde", 8, 1, 2, 3), *rounds("impi", 8, 3, 3, 3),
                   {"contestant": "gloo", "unavailable": "no wheel"},
                   {"contestant": "openmpi", "work": "sweep", "kind": "sweep", "failure": "no end within 30 s"})
    text = page.text(load(path), path.name, [("x.svg", "a plot")])
    assert "{{" not in text
    assert "- Gloo: not measured: no wheel" in text
    assert "- Openmpi: sweep: no end within 30 s" in text
    assert "**3**" in text, "the best peer"
    assert "as \\| it comes" in text


def test_works_cover_the_sizes_and_ranks_of_the_targets():
    from works import all_works

    sweeps = [work for work in all_works(quick=False) if work.kind == "sweep"]
    for ranks in (2, 4):
        for in_place in (True, False):
            sizes = {size for work in sweeps if (work.ranks, work.in_place) == (ranks, in_place) for size in work.bytes}
            assert {8, 1 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20} <= sizes
    assert {work.mode for work in all_works(quick=True) if work.set == "resnet50"} == {"async", "blocking", "flat", "packed"}


def test_resnet50_has_its_tensors():
    from works import resnet50

    assert (len(resnet50()), sum(resnet50()), resnet50()[0]) == (161, 25557032, 1000)


def test_every_contestant_can_be_asked_for_every_work_that_it_takes():
    from contestants import CONTESTANTS
    from works import TRAINERS, all_works

    for work in all_works(quick=False):
        taking = [contestant for contestant in CONTESTANTS if contestant.takes(work)]
        assert taking, work.title
        for contestant in taking:
            command, environment, _ = contestant.start(work)
            assert all(isinstance(word, str) for word in [*command, *environment, *environment.values()])
        if work.kind == "training_step":
            assert {contestant.name for contestant in taking} == set(TRAINERS)
    peers = {contestant.name for contestant in CONTESTANTS if contestant.is_peer}
    assert {"openmpi", "openmpi5", "mpich", "mpich5", "impi", "oneccl", "gloo"} <= peers


def test_a_program_that_measures_a_peer_compiles_and_measures(tmp_path, monkeypatch):
    """The one without a peer, from the release build's library that all of them share."""
    import install

    from started import Job

    monkeypatch.setattr(install, "WORK", tmp_path)
    program = install.compile_program("memory_bound", "memory_bound.cc", [])
    words = ["allreduce", "--json", "--bytes", "65536", "--seconds", "0.05", "--peer", "memory_bound"]
    job = Job([str(program), *words], {}, 2, tmp_path)
    try:
        assert job.wait(60) == ""
    finally:
        job.end()
    [measured] = job.lines()
    assert measured["peer"] == "memory_bound" and measured["bytes"] == 65536 and measured["median_us"] > 0
