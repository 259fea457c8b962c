"""All-reduces called from Python: Gloo through torch.distributed, or Ronde through ronde.torch. The same work, the same
JSON lines as `ronde bench allreduce`."""

from __future__ import annotations

import argparse
import json
import time

import torch

from ranks import Rank, join_torch_gloo, summary

UNITS = {"K": 10, "M": 20, "G": 30}
PERIOD = 1021
WARM_UP = 3  # calls


def parse_size(text: str) -> int:
    return int(text[:-1]) << UNITS[text[-1]] if text[-1] in UNITS else int(text)


class Gloo:
    name = "gloo"

    def __init__(self, place: Rank):
        self.dist = join_torch_gloo(place)

    def run(self, i, source, target):
        # There is no out of place: a user copies.
        if source is not target:
            target.copy_(source)
        self.dist.all_reduce(target)

    def submit(self, i, source, target):
        if source is not target:
            target.copy_(source)
        return self.dist.all_reduce(target, async_op=True)

    def wait(self, handle):
        handle.wait()

    def leave(self):
        self.dist.destroy_process_group()


class Ronde:
    name = "ronde_python"

    def __init__(self, place: Rank):
        import ronde.torch as hvd

        self.hvd = hvd
        hvd.init()

    def run(self, i, source, target):
        if source is not target:
            target.copy_(source)
        self.hvd.allreduce_(target, name=f"bench.{target.numel()}.{i}", op=self.hvd.Sum)

    def submit(self, i, source, target):
        if source is not target:
            target.copy_(source)
        return self.hvd.allreduce_async_(target, name=f"bench.{target.numel()}.{i}", op=self.hvd.Sum)

    def wait(self, handle):
        self.hvd.synchronize(handle)

    def leave(self):
        self.hvd.shutdown()


class Numbers:
    """Small whole numbers that differ from place to place, rank to rank and call to call; sums are exact."""

    def __init__(self, place: Rank, longest: int):
        repeats = (longest + 2 + PERIOD) // PERIOD + 1
        blocks = [((torch.arange(PERIOD) * 7919 + rank * 31) % 3).float() for rank in range(place.size)]
        self.sent = blocks[place.rank].repeat(repeats)
        self.summed = sum(blocks).repeat(repeats)

    def fill(self, tensor, call: int):
        tensor.copy_(self.sent[call % 3 : call % 3 + tensor.numel()])

    def check(self, tensor, call: int):
        if not torch.equal(tensor, self.summed[call % 3 : call % 3 + tensor.numel()]):
            raise AssertionError(f"wrong result of call {call} on {tensor.numel()} elements")


def timed_call(engine, mode, sources, targets, flat):
    """One call of the work; what is timed."""
    if mode == "async":
        for handle in [engine.submit(i, *pair) for i, pair in enumerate(zip(sources, targets))]:
            engine.wait(handle)
    elif mode == "packed":
        torch._foreach_copy_(flat[1], sources)
        engine.run(0, flat[0], flat[0])
        torch._foreach_copy_(targets, flat[1])
    else:
        for i, pair in enumerate(zip(sources, targets)):
            engine.run(i, *pair)


def measure(place, engine, elements, mode, arguments):
    in_place = arguments.in_place or mode == "packed"
    sources = [torch.empty(count) for count in ([sum(elements)] if mode == "flat" else elements)]
    targets = sources if in_place else [torch.empty_like(source) for source in sources]
    flat = None
    if mode == "packed":
        buffer = torch.empty(sum(elements))
        flat = (buffer, list(buffer.split(elements)))
    numbers = Numbers(place, max(source.numel() for source in sources))
    seconds = []
    begin = time.monotonic()
    call = 0
    while True:
        for source in sources:
            numbers.fill(source, call)
        took = place.timed(lambda: timed_call(engine, mode, sources, targets, flat))
        for target in targets:
            numbers.check(target, call)
        call += 1
        if call > WARM_UP:
            seconds.append(took)
            if place.rank0_says(time.monotonic() - begin > arguments.seconds or len(seconds) >= 2000):
                return seconds


def tensors_of(text: str) -> list[int]:
    """Elements of each: COUNTxBYTES, or what `--tensors` says with commas."""
    if "x" in text:
        count, each = text.split("x")
        return [parse_size(each) // 4] * int(count)
    return [int(each) for each in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=["gloo", "ronde"])
    parser.add_argument("--bytes", default="")
    parser.add_argument("--set", default="", help="the set's name in the output")
    parser.add_argument("--tensors", default="", help="a set's elements: 3000x1K, or numbers with commas")
    parser.add_argument("--mode", default="blocking")
    parser.add_argument("--in-place", action="store_true")
    parser.add_argument("--seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    place = Rank()
    engine = (Gloo if arguments.engine == "gloo" else Ronde)(place)
    place.stay_on_own_core()
    works = [[parse_size(each) // 4] for each in arguments.bytes.split(",") if each]
    if arguments.tensors:
        works = [tensors_of(arguments.tensors)]
    for elements in works:
        mode = arguments.mode if arguments.set else "blocking"
        seconds = measure(place, engine, elements, mode, arguments)
        if place.rank == 0:
            line = {
                "peer": engine.name, "op": "allreduce", "dtype": "float32", "ranks": place.size,
                "bytes": 4 * sum(elements), "place": "in_place" if arguments.in_place else "out_of_place",
                "form": "name", "memory": "private",
            }
            if arguments.set:
                line |= {"set": arguments.set, "mode": mode, "tensors": len(elements)}
            print(json.dumps(line | summary(seconds)), flush=True)
    engine.leave()


if __name__ == "__main__":
    main()
