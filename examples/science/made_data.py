"""Made pictures in the form of those that HEP-CNN and CosmoGAN learn from, and each rank's share of a batch.

What is drawn at random is drawn on every rank for the whole batch, from one seed: so a batch is the same whatever the number of
ranks, and each rank takes its part of it.
"""

from __future__ import annotations

import numpy as np


def jets(count: int, side: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What a calorimeter sees of collisions: pictures of ``side`` x ``side`` x 3 (two energies and the tracks), and whether
    each is one of the events looked for (1), which have more jets than the others (0)."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, count).astype(np.int32)
    pictures = np.zeros((count, side, side, 3), np.float32)
    along = np.arange(side)
    for picture, label in zip(pictures, labels):
        for _ in range(2 + generator.poisson(6 if label else 2)):
            row, column = generator.uniform(0, side, 2)
            width = side * generator.uniform(0.02, 0.05)
            # The detector is a tube: what leaves at one end of its angle comes in at the other.
            around = np.abs(along - column)
            around = np.minimum(around, side - around)
            blob = np.outer(np.exp(-0.5 * ((along - row) / width) ** 2), np.exp(-0.5 * (around / width) ** 2))
            picture += (blob[..., None] * generator.exponential(1.0, 3)).astype(np.float32)
    return pictures, labels


def maps(count: int, side: int, seed: int) -> np.ndarray:
    """Maps of ``side`` x ``side`` x 1 from -1 to 1, with much of large scales, a little of small ones, and few high peaks, as
    those of matter that bends light have."""
    generator = np.random.default_rng(seed)
    wave_number = side * np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side))
    noise = np.fft.rfft2(generator.standard_normal((count, side, side)))
    fields = np.fft.irfft2(noise * (1.0 + wave_number) ** -1.5, s=(side, side))
    fields /= fields.std()
    return np.tanh(0.5 * np.expm1(0.8 * fields)).astype(np.float32)[..., None]


def share(batch: np.ndarray, rank: int, size: int) -> np.ndarray:
    """The rank's equal part of what was drawn for all."""
    return np.split(batch, size)[rank]
