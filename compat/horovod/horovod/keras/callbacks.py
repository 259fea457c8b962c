"""The callbacks of the Keras that the program works with, the very same objects."""

from horovod.keras._live import ronde_keras

BestModelCheckpoint = ronde_keras.callbacks.BestModelCheckpoint
BroadcastGlobalVariablesCallback = ronde_keras.callbacks.BroadcastGlobalVariablesCallback
LearningRateScheduleCallback = ronde_keras.callbacks.LearningRateScheduleCallback
LearningRateWarmupCallback = ronde_keras.callbacks.LearningRateWarmupCallback
MetricAverageCallback = ronde_keras.callbacks.MetricAverageCallback

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]
