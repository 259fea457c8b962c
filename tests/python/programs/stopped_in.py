"""The last rank is stopped somewhere in a loop of one operation until the others have timed out, refilled their tensors
and let it go on. Arguments: the operation; whether tensors lie in "private" or "shared" memory; a seed for the moment; a
folder; and, if it is not -1, the rank that is killed meanwhile. Each rank prints what it saw that is wrong, or "right"."""

import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import torch

import ronde.torch as hvd
from ronde.exceptions import RondeError

ELEMENTS = 120_000  # a multiple of all worlds
KIND, MEMORY, SEED, FOLDER, KILLED = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5])
CANARY = 777.0
LIMIT_S = 40.0

tensors = {}


def tensor(name, value, elements=ELEMENTS):
    if name not in tensors:
        tensors[name] = hvd.empty_shared(elements) if MEMORY == "shared" else torch.empty(elements)
    return tensors[name].fill_(value)


def value_of(step, rank):
    return float((7 * step + 3 * rank) % 50 + 1)


def by_rank(result, step, part):
    return [(result[rank * part : (rank + 1) * part], value_of(step, rank)) for rank in range(hvd.size())]


def all_of(step):
    return sum(value_of(step, rank) for rank in range(hvd.size()))


def call(step):
    """Makes the calls of a step; parts of results, and what each must hold."""
    rank, size = hvd.rank(), hvd.size()
    part, root = ELEMENTS // size, step % size
    own = value_of(step, rank)
    if KIND == "allreduce":
        return [(hvd.allreduce_(tensor("x", own), name="x", op=hvd.Sum), all_of(step))]
    if KIND == "unnamed":
        return [(hvd.allreduce_(tensor("x", own), op=hvd.Sum), all_of(step))]
    if KIND == "grouped":
        given = [tensor(f"x{i}", own) for i in range(3)]
        return [(each, all_of(step)) for each in hvd.grouped_allreduce_(given, name="x", op=hvd.Sum)]
    if KIND == "broadcast":
        return [(hvd.broadcast_(tensor("x", own), root, name="x"), value_of(step, root))]
    if KIND == "allgather":
        return by_rank(hvd.allgather(tensor("x", own, part), name="x"), step, part)
    if KIND == "alltoall":
        return by_rank(hvd.alltoall(tensor("x", own), name="x"), step, part)
    if KIND == "reducescatter":
        return [(hvd.reducescatter(tensor("x", own), name="x", op=hvd.Sum), all_of(step))]
    if KIND == "reduce":
        return [(hvd.reduce_(tensor("x", own), root, name="x", op=hvd.Sum), all_of(step) if rank == root else own)]
    if KIND == "exchange":
        received = tensor("y", -1.0)
        sent = hvd.send_async(tensor("x", own), (rank + 1) % size)
        hvd.synchronize(hvd.recv_async(received, (rank - 1) % size))
        hvd.synchronize(sent)
        return [(received, value_of(step, (rank - 1) % size))]
    handles = [
        hvd.allreduce_async_(tensor("x", own), name="x", op=hvd.Sum),
        hvd.broadcast_async_(tensor("y", own), root, name="y"),
    ]
    for handle in handles:
        hvd.synchronize(handle)
    return [(tensors["x"], all_of(step)), (tensors["y"], value_of(step, root))]


def check(step):
    return [f"step {step}: {(part != value).sum().item()} elements are not {value}" for part, value in call(step)
            if (part != value).any()]  # fmt: skip


def stop(processes, delay):
    time.sleep(delay)  # any moment will do
    os.kill(processes[-1], signal.SIGSTOP)
    if KILLED >= 0:
        os.kill(processes[KILLED], signal.SIGKILL)


def wait_for(path):
    until = time.monotonic() + LIMIT_S
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)


def main():
    torch.set_num_threads(1)
    hvd.init()
    rank, last = hvd.rank(), hvd.size() - 1
    processes = hvd.allgather_object(os.getpid())
    wrong = [each for step in range(8) for each in check(step)]  # replay is in force then
    hvd.barrier()
    if rank == 0:
        delay = random.Random(SEED).uniform(0.02, 0.15)
        threading.Thread(target=stop, args=(processes, delay), daemon=True).start()
    step, until, error = 8, time.monotonic() + LIMIT_S, None
    while error is None and not wrong and time.monotonic() < until:
        try:
            wrong += check(step)
        except RondeError as caught:
            error = caught
        step += 1
    if error is None and not wrong:
        wrong.append("nothing has failed")
    for each in tensors.values():
        each.fill_(CANARY)
    (FOLDER / f"failed{rank}").touch()
    if rank == 0:
        for other in range(1, last):
            if other != KILLED:
                wait_for(FOLDER / f"failed{other}")
        os.kill(processes[last], signal.SIGCONT)
    wait_for(FOLDER / f"failed{last}")
    hvd.shutdown()
    wrong += [f"{name}: what was refilled is overwritten" for name, each in tensors.items() if (each != CANARY).any()]
    print(f"rank {rank}: {'; '.join(wrong) or 'right'}", flush=True)


main()
