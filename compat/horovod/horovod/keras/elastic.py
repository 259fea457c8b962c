"""Training that survives failures, with the Keras that the program works with: the very same objects."""

from horovod.keras._live import ronde_keras

CommitStateCallback = ronde_keras.elastic.CommitStateCallback
KerasState = ronde_keras.elastic.KerasState
UpdateBatchStateCallback = ronde_keras.elastic.UpdateBatchStateCallback
UpdateEpochStateCallback = ronde_keras.elastic.UpdateEpochStateCallback
run = ronde_keras.elastic.run

__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback", "run"]
