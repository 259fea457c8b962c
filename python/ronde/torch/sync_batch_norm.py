"""Batch normalisation over the batches of all ranks together."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ronde import _abi, _names, _process
from ronde._names import Name
from ronde.exceptions import InvalidArgumentError
from ronde.torch import _autograd
from ronde.torch._start import start_allgather, start_allreduce

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """As ``torch.nn.BatchNorm1d``, ``2d`` and ``3d``, but in training each rank normalises its batch by the mean and
    the variance of all ranks' batches.

    The arguments are those of ``torch.nn.BatchNorm2d``: ``num_features``, ``eps``, ``momentum``, ``affine``,
    ``track_running_stats``, ``device`` and ``dtype``.

    Input: (N, num_features, ...), on any device; N and what follows may differ between ranks, and be 0. Training mode
    is collective: every rank must call the layer, and run its backward pass, equally often and in the same order. In
    evaluation mode, and in a job of one rank, it does exactly what the layers of PyTorch do and asks no other rank.

    The gradients of ``weight`` and ``bias`` are those of this rank's batch, as of any other parameter:
    ``DistributedOptimizer`` averages them. Raises ValueError for an input without dimension 1 and for a single value
    per channel over all ranks, CollectiveError if the exchange fails.
    """

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise InvalidArgumentError(
                f"SyncBatchNorm takes an input of 2 dimensions or more, (N, {self.num_features}, ...), not of shape "
                f"{tuple(input.shape)}",
                1,
            )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Returns the normalised ``input``, of the same shape and type. Raises as :class:`SyncBatchNorm` says:
        ValueError, CollectiveError."""
        if not self.training or _process.size() == 1:
            self._check_input_dim(input)
            return super().forward(input)
        name = _names.name_of("sync_batch_norm", None)
        try:
            self._check_input_dim(input)
            if input.shape[1] != self.num_features:
                raise InvalidArgumentError(
                    f"SyncBatchNorm of {self.num_features} features got an input of shape {tuple(input.shape)}", 1
                )
            total = _total_of(input.detach(), name)
        except BaseException as error:
            _names.refuse(name, error)
            raise
        if total.n_values <= 1:
            raise ValueError(
                "SyncBatchNorm needs more than 1 value per channel over all ranks when training, not "
                f"{int(total.n_values)}; this rank's input is of shape {tuple(input.shape)}"
            )
        self._track(total)
        normalised: torch.Tensor = _autograd.apply(_Normalise, input, self.weight, self.bias, self.eps, total, name)
        return normalised

    @torch.no_grad()
    def _track(self, total: "_Total") -> None:
        """Moves the running mean and variance towards those of this batch, unless the program has switched that off.
        Without a count of batches there is no average of all, as of PyTorch's layers."""
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        momentum = self.momentum or 0.0
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            momentum = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        unbiased = total.variance * (total.n_values / (total.n_values - 1))
        for running, value in ((self.running_mean, total.mean), (self.running_var, unbiased)):
            running.mul_(1 - momentum).add_(value.to(running.device, running.dtype), alpha=momentum)


class _Total(NamedTuple):
    """Of all ranks' batches together: values per channel, and of each channel the mean and the variance (biased)."""

    n_values: float
    mean: torch.Tensor  # float64, in host memory
    variance: torch.Tensor


def _over_channels(input: torch.Tensor) -> Tuple[int, ...]:
    """All dimensions but that of the channels."""
    return (0, *range(2, input.dim()))


def _summing_type(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _total_of(input: torch.Tensor, name: Name) -> _Total:
    """Means and variances travel, and not sums and sums of squares, whose difference would be all rounding where the
    mean is large."""
    channels = input.shape[1]
    count = input.numel() // channels if channels > 0 else 0
    if count > 0:
        wide = input.to(_summing_type(input.dtype))
        variance, mean = torch.var_mean(wide, dim=_over_channels(input), correction=0)
    else:
        mean = variance = torch.zeros(channels, device="cpu")
    counted = torch.tensor([float(count)], dtype=torch.float64, device="cpu")
    mine = torch.cat([counted, mean.to("cpu", torch.float64), variance.to("cpu", torch.float64)])
    ranks = start_allgather(mine.unsqueeze(0), name, wait=True)
    counts, means, variances = ranks[:, :1], ranks[:, 1 : 1 + channels], ranks[:, 1 + channels :]
    n = float(counts.sum())
    shares = counts / max(n, 1.0)
    mean = (shares * means).sum(0)
    return _Total(n, mean, (shares * (variances + (means - mean).square())).sum(0))


class _Normalise(torch.autograd.Function):
    """``(input - mean) / sqrt(variance + eps) * weight + bias``, where mean and variance are of all ranks' inputs."""

    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        weight: Optional[torch.Tensor],
        bias: Optional[torch.Tensor],
        eps: float,
        total: _Total,
        name: Name,
    ) -> torch.Tensor:
        wide = _summing_type(input.dtype)
        mean = total.mean.to(input.device, wide)
        inverse = (total.variance + eps).rsqrt().to(input.device, wide)
        ctx.save_for_backward(input, weight, mean, inverse)
        ctx.n_values = total.n_values
        ctx.type_of_bias = None if bias is None else bias.dtype
        ctx.name = _names.name_of_gradient(name) if input.requires_grad else None
        shape = _of_channels(input)
        scale = inverse if weight is None else inverse * weight.to(wide)
        result = (input.to(wide) - mean.view(shape)) * scale.view(shape)
        if bias is not None:
            result += bias.to(wide).view(shape)
        return result.to(input.dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        input, weight, mean, inverse = ctx.saved_tensors
        gradient = gradients[0].to(inverse.dtype)
        shape, over = _of_channels(input), _over_channels(input)
        normalised = (input.to(inverse.dtype) - mean.view(shape)) * inverse.view(shape)
        of_bias = gradient.sum(over)
        of_weight = (gradient * normalised).sum(over)
        of_input = None
        if ctx.name is not None:
            sums = torch.cat([of_bias, of_weight])
            sums = start_allreduce([sums], None, ctx.name, _abi.SUM, 1.0, 1.0, True, wait=True) / ctx.n_values
            by_bias, by_weight = sums.chunk(2)
            scale = inverse if weight is None else inverse * weight.to(inverse.dtype)
            of_input = gradient - by_bias.view(shape) - normalised * by_weight.view(shape)
            of_input = (of_input * scale.view(shape)).to(input.dtype)
        _, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        return (
            of_input,
            of_weight.to(weight.dtype) if needs_weight else None,
            of_bias.to(ctx.type_of_bias) if needs_bias else None,
            None,
            None,
            None,
        )


def _of_channels(input: torch.Tensor) -> Tuple[int, ...]:
    """The shape in which a value per channel is spread over the input."""
    return (1, -1, *(1 for _ in range(2, input.dim())))
