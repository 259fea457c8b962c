"""Training that survives failures: :mod:`ronde.torch.elastic`, the very same objects."""

import horovod.torch.elastic.sampler as sampler
import horovod.torch.elastic.state as state
from ronde.torch.elastic import ElasticSampler, TorchState, run

__all__ = ["ElasticSampler", "TorchState", "run", "sampler", "state"]
