"""What is measured: works, each of which all contestants do one after the other before the next begins."""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20
# Groups of sizes that one start of a program measures: short enough that the next contestant sees the same machine. The
# borders lie where a peer's settings change.
GROUPS = ([8, 64, KIB, 8 * KIB, 64 * KIB], [512 * KIB, MIB], [4 * MIB, 16 * MIB], [64 * MIB, 256 * MIB])
QUICK_GROUPS = ([8, KIB, 64 * KIB], [MIB], [16 * MIB, 64 * MIB])
LARGE_FROM = 2 * MIB

#: Who trains, by the contestant's name, and which of the models is mostly communication.
TRAINERS = {"gloo": "DDP over Gloo", "ronde_ddp": "DDP over Ronde", "ronde": "Ronde"}
MODELS = ("mlp", "mlp_batch_1", "cnn")
COMMUNICATION_BOUND = ("mlp_batch_1",)


@dataclass(frozen=True)
class Work:
    kind: str  # sweep, set, dtypes, training_step, idle
    ranks: int
    bytes: tuple[int, ...] = ()
    in_place: bool = False
    set: str = ""  # of kind set: resnet50, 3000x1K; of kind training_step: the model
    mode: str = ""
    dtype: str = "float32"
    seconds: float = 0.3  # for each size
    steps: int = 0

    @property
    def is_small(self) -> bool:
        return self.kind == "sweep" and max(self.bytes) <= 64 * KIB

    @property
    def is_all_large(self) -> bool:
        return min(self.bytes, default=0) >= LARGE_FROM or (self.set == "resnet50" and self.mode in ("flat", "packed"))

    @property
    def title(self) -> str:
        what = {"sweep": "sweep", "dtypes": self.dtype, "training_step": f"training step {self.set}", "idle": "idle",
                "set": f"{self.set} {self.mode}"}[self.kind]
        sizes = f" {size_text(self.bytes[0])}-{size_text(self.bytes[-1])}" if self.bytes else ""
        return f"{what}{sizes}, {self.ranks} ranks" + (", in place" if self.in_place else "")

    @property
    def limit_s(self) -> float:
        """A contestant that takes longer is stuck. Warm-up and verifying come on top of the timed calls."""
        return 30 + max(len(self.bytes), 1) * (3 * self.seconds + 10)

    def words(self) -> list[str]:
        """Of `ronde bench` and the peers' programs."""
        words = ["allreduce", "--json", "--dtype", self.dtype, "--seconds", str(self.seconds)]
        if self.in_place:
            words.append("--in-place")
        if self.set:
            return [*words, "--many" if is_many(self.set) else "--gradients", self.set, "--mode", self.mode]
        return [*words, "--bytes", ",".join(map(str, self.bytes))]

    def python_words(self) -> list[str]:
        words = ["--seconds", str(self.seconds)] + (["--in-place"] if self.in_place else [])
        if self.set:
            tensors = self.set if is_many(self.set) else ",".join(map(str, resnet50()))
            return [*words, "--set", self.set, "--tensors", tensors, "--mode", self.mode]
        return [*words, "--bytes", ",".join(map(str, self.bytes))]


def is_many(name: str) -> bool:
    return name[0].isdigit()


def size_text(size: int) -> str:
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def resnet50() -> list[int]:
    """Elements of its 161 gradients in backward order, as `ronde bench --gradients resnet50` has them."""
    sizes = [9408, 64, 64]
    inputs, width = 64, 64
    for blocks in (3, 4, 6, 3):
        outputs = 4 * width
        for block in range(blocks):
            sizes += [inputs * width, width, width, 9 * width * width, width, width, width * outputs, outputs, outputs]
            if block == 0:
                sizes += [inputs * outputs, outputs, outputs]
            inputs = outputs
        width *= 2
    return [*sizes, 2048000, 1000][::-1]


def all_works(quick: bool) -> list[Work]:
    """One round."""
    works = []
    groups = QUICK_GROUPS if quick else GROUPS
    for ranks in (2, 4):
        for sizes in groups:
            seconds = 0.1 if quick else 0.3
            if max(sizes) >= 64 * MIB:
                seconds *= 3
            for in_place in (True,) if quick and ranks == 4 else (True, False):
                works.append(Work("sweep", ranks, tuple(sizes), in_place, seconds=seconds))
    set_seconds = 0.6 if quick else 2.0
    for mode in ("async", "blocking", "flat", "packed"):
        works.append(Work("set", 2, set="resnet50", mode=mode, in_place=True, seconds=set_seconds))
    for mode in ("async", "blocking", "packed"):
        works.append(Work("set", 2, set="3000x1K", mode=mode, in_place=True, seconds=set_seconds))
    sizes = (64 * KIB, MIB, 16 * MIB)
    for dtype in ("float32", "bfloat16", "float16"):
        works.append(Work("dtypes", 2, sizes, True, dtype=dtype))
    for model in MODELS:
        works.append(Work("training_step", 2, set=model, steps=8 if quick else 20))
    works.append(Work("idle", 4))
    return works
