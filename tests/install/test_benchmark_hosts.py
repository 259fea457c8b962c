"""benchmarks/hosts without any peer: what is read from results, said of targets and written. What starts hosts is tried by
tests/hosts/test_benchmark.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
MIB = 1 << 20


@pytest.fixture(autouse=True)
def modules(monkeypatch):
    """Its modules have short names: they are importable in these tests only."""
    monkeypatch.syspath_prepend(str(BENCHMARKS / "peers"))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "hosts"))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def line(contestant, size, median_us, kind="sweep 2x1 bare", **more):
    return {"contestant": contestant, "kind": kind, "op": "allreduce", "dtype": "float32", "ranks": 2, "bytes": size,
            "place": "in_place", "median_us": median_us, "others": 0.0, "round": 0} | more


def rounds(contestant, size, *medians, **more):
    return [line(contestant, size, median, **more) | {"round": number} for number, median in enumerate(medians)]


def wire(*rates, kind="wire 2x1 bare"):
    return [{"contestant": "iperf3", "kind": kind, "op": "wire", "ranks": 2, "bytes_per_s": rate, "round": number}
            for number, rate in enumerate(rates)]


def loaded(path, *lines):
    from results import load

    contestants = {name: {"title": name.capitalize(), "settings": "as | it comes"}
                   for name in ("ronde", "ronde_slot", "ronde_off", "ronde_mac", "ronde_encrypt", "openmpi", "mpich", "gloo",
                                "iperf3")}
    head = {"about": "a test", "processor": "one", "date": "2026-01-01", "commit": "abc", "rounds": 3, "cores": 2,
            "kernel": "6.1-x", "quick": False, "contestants": contestants}
    path.write_text("".join(json.dumps(each) + "\n" for each in (head, *lines)), encoding="utf-8")
    return load(path)


def test_ratios_are_within_a_round(tmp_path):
    from host_targets import sweep, to_peers
    from host_works import BARE

    # Of medians over rounds the ratio would be 1; in each round ours took half of theirs, or there is none.
    found = loaded(tmp_path / "a", *rounds("ronde", 64, 1, 2, 4), *rounds("mpich", 64, 2, 4, 8),
                   *rounds("gloo", 64, 3)[:1], *rounds("openmpi", 64))
    ratios = to_peers(found, sweep(found, BARE, (8, 64)), ("mpich", "gloo", "openmpi"))
    assert [(each.value, each.text) for each in ratios] == [(0.5, "0.50x mpich (64 B)"), (1 / 3, "0.33x gloo (64 B)")]


def test_the_wire_is_compared_with_both_directions(tmp_path):
    from host_targets import large

    # 2n/T: 32 MiB in 10 ms are 3.36 GB/s.
    found = loaded(tmp_path / "a", *rounds("ronde", 16 * MIB, 10_000, 10_000), *wire(4e9, 3.5e9))
    to_iperf, *others = large(found)
    assert to_iperf[2] == "worst 0.90 of iperf3 (16 MiB); 0 of 1 within"  # 0.839 and 0.959: 0.8988
    assert to_iperf[3] == "missed"
    assert {row[3] for row in others} == {"not measured"}


def test_small_ones_are_held_to_the_faster_mpi_and_to_gloo(tmp_path):
    from host_targets import small

    found = loaded(tmp_path / "a", *rounds("ronde", 8, 10, 10), *rounds("openmpi", 8, 8, 8), *rounds("mpich", 8, 20, 20),
                   *rounds("gloo", 8, 200, 160))
    bare, shaped, gloo = small(found)
    assert bare[2:] == ["worst 1.25x openmpi (8 B); 1 of 2 within", "missed"]
    assert shaped[3] == "not measured"
    assert gloo[2:] == ["worst 0.06x gloo (8 B); 1 of 1 within", "met"]


def test_bytes_of_a_host_are_compared_with_what_is_needed(tmp_path):
    from host_targets import four_hosts

    def of(most, least):
        return line("ronde", 64 * MIB, 9, kind="sweep 4x2 1 Gbit/s", ranks=8, sent_most=most * 96 * MIB,
                    sent_least=least * 96 * MIB)

    _, within = four_hosts(loaded(tmp_path / "a", of(1.01, 0.995)))
    assert within[2:] == ["+1.00%", "met"]
    _, less = four_hosts(loaded(tmp_path / "b", of(1.01, 0.97)))
    assert less[2:] == ["-3.00%", "missed"]


def test_lists_are_compared_with_the_best_way_of_each_round(tmp_path):
    from host_targets import lists

    def of(contestant, mode, *medians, **more):
        return rounds(contestant, 100 * MIB, *medians, kind="set 2x1 bare", set="resnet50", mode=mode, **more)

    found = loaded(tmp_path / "a", *of("ronde", "async", 9, 9, control_messages=0),
                   *of("ronde_slot", "blocking", 6, 12, control_messages=2), *of("ronde", "packed", 1, 1),
                   *of("openmpi", "packed", 12, 20), *of("gloo", "async", 20, 18), *of("mpich", "flat", 1, 1))
    time, messages, *others = lists(found)
    assert time[2:] == ["worst 0.50x the best of the round; 1 of 1 within", "met"]
    assert messages[2:] == ["2", "missed"]
    assert {row[3] for row in others} == {"not measured"}


def test_protection_is_compared_with_none(tmp_path):
    from host_targets import integrity

    shaped = {"kind": "sweep 2x1 10 Gbit/s"}
    found = loaded(tmp_path / "a", *rounds("ronde_off", 16 * MIB, 100, 100, **shaped),
                   *rounds("ronde", 16 * MIB, 110, **shaped), *rounds("ronde_mac", 16 * MIB, 120, 120, **shaped),
                   *rounds("ronde_encrypt", 16 * MIB, 200, **shaped))
    rows = {row[0]: row[1:] for row in integrity(found)}
    assert rows["checksums, 16 to 256 MiB, 10 Gbit/s"][1:] == ["worst 1.10x ronde_off (16 MiB); 1 of 1 within", "met"]
    assert rows["MACs on data, 16 to 256 MiB, 10 Gbit/s"][2] == "missed"
    assert rows["encryption, 16 to 256 MiB, 10 Gbit/s"] == ["stated", "worst 2.00x ronde_off (16 MiB)", "-"]
    assert rows["MACs on data, 16 to 256 MiB, bare"] == ["stated", "-", "-"]


def test_every_target_has_a_row_whatever_was_measured(tmp_path):
    from host_targets import rows

    empty = rows(loaded(tmp_path / "a"))
    assert len(empty) >= 14
    assert {row[3] for row in empty} == {"not measured", "-"}
    some = rows(loaded(tmp_path / "b", *rounds("ronde", 8, 1)))
    assert [row[:2] for row in some] == [row[:2] for row in empty]


def test_counters_go_to_the_measurement_that_they_are_of():
    from host_jobs import with_counters

    def counters(rank, size, messages, calls=50):
        return {"counters": "ronde", "rank": rank, "bytes": size, "all_calls": calls, "control_messages": messages}

    lines = [line("ronde", 8, 1), counters(0, 8, 1), line("ronde", 64, 1), counters(1, 8, 2), counters(0, 64, 0)]
    eight, more = with_counters(lines, [])
    assert (eight["control_messages"], more["control_messages"]) == (3, 0)
    [sent] = with_counters([line("ronde", 8, 1), counters(0, 8, 0)], [1000, 1200])
    assert (sent["sent_most"], sent["sent_least"]) == (24, 20)
    [few] = with_counters([line("ronde", 8, 1), counters(0, 8, 3, 10)], [])
    assert "control_messages" not in few, "ranks still agree in so few calls"


def test_what_iperf3_says_is_added_over_both_directions():
    from host_contestants import wire_line

    end = {"sum_sent": {"bits_per_second": 1}, "sum_received": {"bits_per_second": 16e9},
           "sum_received_bidir_reverse": {"bits_per_second": 8e9}}
    assert wire_line(end)["bytes_per_s"] == 3e9


def test_works_are_those_of_the_peers_on_a_network_each():
    from host_contestants import CONTESTANTS
    from host_works import all_works

    by_name = {each.name: each for each in CONTESTANTS}
    for quick in (True, False):
        works = all_works(quick)
        assert len({work.title for work in works}) == len(works)
        for work in works:
            takers = {name for name, each in by_name.items() if each.takes(work)}
            if work.work.kind == "wire":
                assert takers == {"iperf3"}
            else:
                assert {"ronde", "openmpi", "mpich", "gloo"} <= takers
                protected = {"ronde_off", "ronde_mac", "ronde_encrypt"}
                between_two = work.work.kind == "sweep" and work.network.hosts == 2
                assert takers & protected == (protected if between_two else set())


def test_the_section_says_what_was_missed(tmp_path):
    import host_page

    found = loaded(tmp_path / "a", *rounds("ronde", 8, 10, 10), *rounds("openmpi", 8, 8, 8),
                   *wire(4e9), {"contestant": "mpich", "unavailable": "no package"})
    text = host_page.section(found, "a.jsonl", [("x.svg", "a plot")])
    assert "{{" not in text
    assert "- 8 B to 64 KiB, 2 hosts, bare: not slower than Open MPI and MPICH: worst 1.25x openmpi" in text
    assert "- Mpich: not measured: no package" in text
    assert "**8**" in text, "the best peer"
    assert "| bare | 4.00 |" in text
    assert "Missed" in text and "a.jsonl" in text
    assert "1.25x openmpi" in host_page.everything(found)


def test_each_of_both_benches_keeps_the_other_ones_section(root):
    import page

    text = (root / "benchmarks/peers/page.md").read_text(encoding="utf-8")
    written = page.with_hosts(text, "A section.\n")
    assert page.hosts_section(written) == "A section.\n"
    assert page.with_hosts(written, page.hosts_section(written)) == written
    assert page.hosts_section((root / "docs/benchmarks.md").read_text(encoding="utf-8")) != "A section.\n"


def test_without_root_it_says_so_in_one_sentence():
    program = "import os, sys; os.geteuid = lambda: 1000; sys.argv[0] = 'x'; import bench_hosts; sys.exit(bench_hosts.main([]))"
    stand_in = "import sys, types; sys.modules['tqdm'] = types.SimpleNamespace(tqdm=None); "
    ended = subprocess.run([sys.executable, "-c", stand_in + program], cwd=BENCHMARKS / "hosts", stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == ("bench-hosts makes hosts out of network namespaces with an ssh server in each, which needs "
                            "root.\n")
