#!/usr/bin/env python3
"""Training that starts again from its last commit when an operation fails: ronde run -n 2 -- python elastic.py

A small network learns a function. After 37 steps one rank claims that an operation has failed (`--fail-at 0`: none
does), as it would after a deadline has passed: all ranks join anew, go back to the last commit, step 30, and finish.
What an ordinary script needs for that is marked with (1) to (5).
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

import ronde.torch as hvd

SAMPLES = 960
BATCH = 16
EPOCHS = 4

fails = True  # this process has not yet claimed a failure


def fail_once(step: int, options: argparse.Namespace) -> None:
    global fails
    if fails and step == options.fail_at and hvd.rank() == hvd.size() - 1:
        fails = False
        print(f"rank {hvd.rank()} gives up at step {step}", flush=True)
        raise hvd.HorovodInternalError("as if a deadline had passed")


@hvd.elastic.run  # (1) starts this function again after such an error
def train(state, inputs: torch.Tensor, targets: torch.Tensor, options: argparse.Namespace) -> None:
    print(f"rank {hvd.rank()} begins at step {state.step}", flush=True)
    for state.epoch in range(state.epoch, EPOCHS):  # (2) goes on where the state is
        loader = torch.utils.data.DataLoader(range(SAMPLES), batch_size=BATCH, sampler=state.sampler)
        for index, batch in enumerate(loader):
            fail_once(state.step, options)
            state.optimizer.zero_grad()
            loss = (state.model(inputs[batch]) - targets[batch]).square().mean()
            loss.backward()
            state.optimizer.step()
            state.step += 1
            state.sampler.record_batch(index, len(batch))  # (3) which samples have been read
            if state.step % options.commit_every == 0:
                state.commit()  # (4) what a restart goes back to
        state.sampler.set_epoch(state.epoch + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fail-at", type=int, default=37, help="the step at which the last rank fails, once; 0: none")
    parser.add_argument("--commit-every", type=int, default=10, help="steps between two commits")
    options = parser.parse_args()
    options.fail_at = options.fail_at or None

    hvd.init()
    torch.manual_seed(1)
    inputs = torch.rand(SAMPLES, 2) * 4 - 2
    targets = (inputs[:, :1] * inputs[:, 1:]).sin()
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(range(SAMPLES))
    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, step=0)  # (5) what must not be lost

    train(state, inputs, targets, options)
    with torch.no_grad():
        error = (model(inputs) - targets).square().mean().item()
    print(f"rank {hvd.rank()} of {hvd.size()}: {state.step} steps, error {error:.6f}", flush=True)


if __name__ == "__main__":
    main()
