"""Training that survives failures: :mod:`ronde.torch.elastic`, the very same objects."""

from ronde.torch.elastic import ElasticSampler, TorchState, run

__all__ = ["ElasticSampler", "TorchState", "run"]
