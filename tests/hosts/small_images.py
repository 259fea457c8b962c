"""As many made images, in the format of Fashion-MNIST, as examples/torch/fashion_mnist.py trains with in a second."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np


def make(folder: Path) -> None:
    """Always the same."""
    folder.mkdir()
    _write(folder, "train", 1024)
    _write(folder, "t10k", 100)


def _write(folder: Path, part: str, count: int) -> None:
    random = np.random.default_rng(count)
    labels = random.integers(0, 10, count, np.uint8)
    images = random.integers(0, 100, (count, 28, 28), np.uint8) + 15 * labels[:, None, None]
    for name, values in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
        header = struct.pack(f">4B{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
        (folder / f"{name}.gz").write_bytes(gzip.compress(header + values.astype(np.uint8).tobytes(), 1))
