"""benchmarks/plan without any host: what is fitted to measurements, and which of them are held out. What starts hosts is tried
by tests/hosts/test_plan.py."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RONDE = str(ROOT / ".venv/bin/ronde")
MIB = 1 << 20


@pytest.fixture
def validate(monkeypatch):
    """Its modules have short names: they are importable in these tests only."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks/plan"))
    monkeypatch.syspath_prepend(str(ROOT / "tests/hosts"))
    before = set(sys.modules)
    import validate

    yield validate
    for name in set(sys.modules) - before:
        del sys.modules[name]


def cases_of(validate, parameters):
    """As if the planner were right."""
    cases = [{"rate_mbit": rate, "hosts": hosts, "per_host": per_host, "bytes": size}
             for rate in (100,) for hosts, per_host in ((2, 1), (3, 1), (4, 1)) for size in (4096, 65536, MIB)]
    return [case | {"median_us": us} for case, us in zip(cases, validate.forecasts(RONDE, cases, parameters))]


def test_a_fit_finds_the_parameters_that_were_used(validate):
    used = {"latency_us": 120.0, "overhead_us": 8.0, "link_share": 0.8, "sharing_loss": 0.1}
    cases = cases_of(validate, used)
    found = validate.fit(RONDE, cases)
    assert found["link_share"] == pytest.approx(used["link_share"], rel=0.05)
    assert max(map(abs, validate.errors(RONDE, cases, found))) < 0.1


def test_what_is_not_fitted_is_held_out(validate):
    case = {"rate_mbit": 20, "hosts": 2, "per_host": 1, "bytes": MIB}
    assert validate.kind_of(case, validate.WHOLE) == "fitted"
    assert validate.kind_of(case | {"bytes": 4 * MIB}, validate.WHOLE) == "size"
    assert validate.kind_of(case | {"hosts": 3, "rate_mbit": 50}, validate.WHOLE) == "rate and hosts"


def test_the_report_tells_the_held_out_apart(validate, capsys):
    cases = cases_of(validate, validate.START)
    validate.report(cases, validate.WHOLE, RONDE)
    out = capsys.readouterr().out
    assert "| 100 | 2 x 1 | 65536 |" in out and "| all held out | 5 |" in out


#: Fitted to some of the results that docs/plan.md tells of.
FITTED = {"latency_us": 937.0, "overhead_us": 200.0, "link_share": 1.014, "sharing_loss": 0.127}


def test_the_planner_is_as_right_as_the_page_says(validate, monkeypatch, capsys):
    monkeypatch.setattr(validate, "fit", lambda program, cases: FITTED)
    results = ROOT / "benchmarks/results/2026-11-29-0423-plan.jsonl"
    assert validate.main(["--read", str(results), "--ronde", RONDE]) == 0
    number, mean = re.search(r"^\| all held out \| (\d+) \| ([\d.]+)%", capsys.readouterr().out, flags=re.MULTILINE).groups()
    assert int(number) == 120 and float(mean) < 15


def test_the_table_has_a_row_for_each_number_of_hosts(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks/plan"))
    import scaling_table

    assert scaling_table.main(["--ronde", RONDE, "--hosts", "2,8"]) == 0
    out = capsys.readouterr().out
    assert out.count("| hosts | ranks | ResNet-50 |") == len(scaling_table.TABLES)
    assert "\n| 8 | 32 | " in out and "\n| 8 | 8 | " in out
