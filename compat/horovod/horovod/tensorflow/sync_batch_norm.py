"""What :mod:`ronde.tensorflow.sync_batch_norm` has, the very same object."""

from ronde.tensorflow.sync_batch_norm import SyncBatchNormalization

__all__ = ["SyncBatchNormalization"]
