"""Fashion-MNIST: 60,000 training and 10,000 test images of clothes, 28 x 28 grey pixels, in ten classes.

The files are in the idx format: two zero bytes, a type (8: uint8), the number of dimensions, their extents as
big-endian 32-bit numbers, then the values; all compressed with gzip.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import urllib.request
from pathlib import Path

import numpy as np
import torch

#: Where Debian's package dataset-fashion-mnist puts the files.
DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
OFFICIAL_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"

#: File -> SHA-256 of what it holds unpacked, so that it does not matter who has packed it.
FILES = {
    "train-images-idx3-ubyte.gz": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte.gz": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte.gz": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte.gz": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}


def is_complete(folder: Path) -> bool:
    """Whether all four files are there."""
    return all((folder / name).is_file() for name in FILES)


def download(folder: Path) -> None:
    """Fetches what is missing from the official place (30 MB in all). ValueError if a file arrives broken."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, sha256 in FILES.items():
        target = folder / name
        if target.is_file():
            continue
        with urllib.request.urlopen(OFFICIAL_URL + name, timeout=60) as response:
            content = response.read()
        if hashlib.sha256(gzip.decompress(content)).hexdigest() != sha256:
            raise ValueError(f"{OFFICIAL_URL}{name} has arrived broken; try again")
        target.write_bytes(content)


def read_idx(path: Path) -> torch.Tensor:
    """A uint8 tensor of the file's shape."""
    content = gzip.decompress(path.read_bytes())
    zero, kind, n_dimensions = int.from_bytes(content[:2], "big"), content[2], content[3]
    header = 4 + 4 * n_dimensions
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, header, 4)]
    if zero != 0 or kind != 8 or len(content) != header + math.prod(shape):
        raise ValueError(f"{path} is no idx file of bytes")
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy())


def load(folder: Path, part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (n, 1, 28, 28) as float32 of about zero mean and unit spread, and labels (n,) as int64.

    `part` is "train" or "t10k" (the test images).
    """
    images = read_idx(folder / f"{part}-images-idx3-ubyte.gz").unsqueeze(1).float()
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz").long()
    return (images / 255 - 0.286) / 0.353, labels
