"""Training that survives failures: :mod:`ronde.tensorflow.elastic`, the very same objects."""

from ronde.tensorflow.elastic import TensorFlowKerasState, TensorFlowState, run

__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]
