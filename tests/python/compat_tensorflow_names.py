"""Horovod's public names for TensorFlow and Keras, as data: modules, and what each has to have."""

from __future__ import annotations

from typing import Dict, Set

_WHO = """init shutdown is_initialized size local_size cross_size rank local_rank cross_rank mpi_threads_supported
    mpi_enabled gloo_enabled mpi_built gloo_built nccl_built ddl_built ccl_built cuda_built rocm_built start_timeline
    stop_timeline Average Sum Adasum Min Max Product"""
_SETS = "ProcessSet global_process_set add_process_set remove_process_set"
_OPERATIONS = """allreduce grouped_allreduce allgather grouped_allgather broadcast broadcast_ alltoall reducescatter
    grouped_reducescatter join size_op local_size_op rank_op local_rank_op process_set_included_op"""
_FUNCTIONS = """broadcast_variables broadcast_object broadcast_object_fn allgather_object broadcast_global_variables
    BroadcastGlobalVariablesHook"""
_KERAS = f"""{_WHO} DistributedOptimizer broadcast_global_variables allreduce allgather broadcast reducescatter load_model
    Compression callbacks elastic"""
_CALLBACKS = """BroadcastGlobalVariablesCallback MetricAverageCallback LearningRateScheduleCallback
    LearningRateWarmupCallback BestModelCheckpoint"""
_KERAS_ELASTIC = "KerasState CommitStateCallback UpdateBatchStateCallback UpdateEpochStateCallback run"

NAMES: Dict[str, Set[str]] = {
    module: set(names.split())
    for module, names in {
        "horovod.tensorflow": f"""{_WHO} {_SETS} {_OPERATIONS} {_FUNCTIONS} is_homogeneous DistributedOptimizer
            DistributedGradientTape PartialDistributedGradientTape SyncBatchNormalization
            LocalGradientAggregationHelper elastic Compression check_num_rank_power_of_2 gpu_available vars_to_refs
            refs_to_vars _executing_eagerly _make_subgraph _cache handle_average_backwards_compatibility""",
        "horovod.tensorflow.mpi_ops": f"{_WHO} {_OPERATIONS} _allreduce _allgather _broadcast",
        "horovod.tensorflow.functions": _FUNCTIONS,
        "horovod.tensorflow.compression": "Compression",
        "horovod.tensorflow.elastic": "TensorFlowKerasState TensorFlowState run",
        "horovod.tensorflow.gradient_aggregation": "LocalGradientAggregationHelper",
        "horovod.tensorflow.gradient_aggregation_eager": "LocalGradientAggregationHelperEager",
        "horovod.tensorflow.sync_batch_norm": "SyncBatchNormalization",
        "horovod.tensorflow.keras": f"{_KERAS} {_SETS}",
        "horovod.tensorflow.keras.callbacks": _CALLBACKS,
        "horovod.tensorflow.keras.elastic": _KERAS_ELASTIC,
        "horovod.keras": f"{_KERAS} PartialDistributedOptimizer",
        "horovod.keras.callbacks": _CALLBACKS,
        "horovod.keras.elastic": _KERAS_ELASTIC,
    }.items()
}
