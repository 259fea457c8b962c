"""What results are compared with: values that follow from the rank, and NumPy."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

import numpy as np
import torch

Array = np.ndarray


def numbers(rank: int, shape: Sequence[int] = (4, 3), salt: int = 0) -> Array:
    """Rank ``rank``'s values: whole numbers from 1 to 5, so that any sum of eight ranks is exact in any type."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 + rank * (1 + salt) + salt) % 5 + 1).astype(np.float64).reshape(tuple(shape))


def adasum(vectors: List[Array]) -> Array:
    """Neighbours first; the last of an odd number goes on as it is."""
    while len(vectors) > 1:
        pairs = []
        for a, b in zip(vectors[::2], vectors[1::2]):
            product, of_a, of_b = (a * b).sum(), (a * a).sum(), (b * b).sum()
            pairs.append((1 - product / (2 * of_a)) * a + (1 - product / (2 * of_b)) * b)
        vectors = pairs + vectors[2 * len(pairs) :]
    return vectors[0]


#: What each operation makes of the ranks' values.
REDUCED: Dict[str, Callable[[List[Array]], Array]] = {
    "Average": lambda values: np.mean(values, axis=0),
    "Sum": lambda values: np.sum(values, axis=0),
    "Min": lambda values: np.min(values, axis=0),
    "Max": lambda values: np.max(values, axis=0),
    "Product": lambda values: np.prod(values, axis=0),
    "Adasum": adasum,
}


def tensor_of(values: Array, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor with a copy of the values."""
    return torch.from_numpy(np.array(values)).to(dtype)


def check(result: torch.Tensor, expected: Any, what: str, dtype: torch.dtype = torch.float32) -> None:
    """AssertionError unless it has these values, this shape and this type."""
    expected = np.asarray(expected, dtype=np.float64)
    assert isinstance(result, torch.Tensor), f"{what}: {result!r} is no tensor"
    assert result.dtype == dtype, f"{what}: of type {result.dtype}, expected {dtype}"
    assert tuple(result.shape) == expected.shape, f"{what}: of shape {tuple(result.shape)}, expected {expected.shape}"
    accuracy = 4 * torch.finfo(dtype).eps if dtype.is_floating_point else 0.0
    np.testing.assert_allclose(
        result.detach().double().numpy(), expected, rtol=accuracy, atol=accuracy, err_msg=what
    )
