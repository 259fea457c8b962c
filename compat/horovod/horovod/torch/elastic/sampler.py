"""What :mod:`ronde.torch.elastic.sampler` has, the very same objects."""

from ronde.torch.elastic.sampler import ElasticSampler

__all__ = ["ElasticSampler"]
