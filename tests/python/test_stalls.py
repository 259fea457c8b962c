"""Ranks that do not come: the log says who is waited for; what follows is what Horovod's two limits say, or nothing."""

from __future__ import annotations

import pytest
import torch

from launching import run_job, wait_until


@pytest.mark.parametrize("steps", [0, 10], ids=["agreed", "replayed"])
def test_a_stall_is_reported_and_then_ends_the_job(tmp_path, steps):
    ended = run_job(
        2, "stalls.py", str(steps), str(tmp_path / "gone"), forked="torch",
        HOROVOD_STALL_CHECK_TIME_SECONDS="0.5", HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="1.5",
    )
    assert ended.code != 0
    assert "named 'allreduce.x' waits for rank 0; rank 1 has submitted it" in ended.output
    sentence = ended.lines("ended: ")
    assert len(sentence) == 1 and "named 'allreduce.x': rank 0 did not submit it" in sentence[0], ended.output


def weight_after(model, optimizer, rank, steps):
    """Steps in which the mean of three ranks' gradients is 2."""
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.full((1, 4), float(rank + 1))).sum().backward()
        optimizer.step()
    return model.weight.tolist()


@pytest.mark.ranks(3)
@pytest.mark.parametrize("steps", [1, 20], ids=["agreed", "replayed"])
def test_rank_0_validates_while_the_others_wait(hvd, rank, steps, capfd, monkeypatch):
    """As by default, but that a minute is a quarter of a second: it is told who waits for what, again and again, and
    the training goes on."""
    monkeypatch.setenv("RONDE_STALL_S", "0.25")
    hvd.shutdown()
    hvd.init()
    model = torch.nn.Linear(4, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.125), model.named_parameters())
    assert weight_after(model, optimizer, rank, steps) == [[1 - 0.25 * steps] * 4]
    told = "named 'allreduce.weight' waits for rank 0; ranks 1, 2 have submitted it"
    said: list[str] = []

    def is_told_twice() -> bool:
        with torch.no_grad():
            model(torch.ones(64, 4))  # validates
        said.extend(line for line in capfd.readouterr().err.splitlines() if told in line)
        return len(said) >= 2

    if rank == 0:
        wait_until(is_told_twice, 30, "two reports of the stall")
    assert weight_after(model, optimizer, rank, 5) == [[1 - 0.25 * (steps + 5)] * 4]
    monkeypatch.undo()
    hvd.shutdown()
    hvd.init()
