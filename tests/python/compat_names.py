"""Horovod's public names, as data: what tests of the names ask for. Modules (``module:class``), and what each has to
have."""

from __future__ import annotations

from typing import Dict, Set

_WHO = """init shutdown is_initialized size local_size cross_size rank local_rank cross_rank is_homogeneous
    mpi_threads_supported mpi_enabled gloo_enabled mpi_built gloo_built nccl_built ddl_built ccl_built cuda_built
    rocm_built start_timeline stop_timeline Average Sum Adasum Min Max Product"""

_TORCH_OPERATIONS = """allreduce allreduce_async allreduce_ allreduce_async_
    grouped_allreduce grouped_allreduce_async grouped_allreduce_ grouped_allreduce_async_ sparse_allreduce_async
    allgather allgather_async grouped_allgather grouped_allgather_async
    broadcast broadcast_async broadcast_ broadcast_async_ alltoall alltoall_async
    reducescatter reducescatter_async grouped_reducescatter grouped_reducescatter_async
    join barrier poll synchronize"""

_TORCH_FUNCTIONS = "broadcast_parameters broadcast_optimizer_state broadcast_object allgather_object"

NAMES: Dict[str, Set[str]] = {
    module: set(names.split())
    for module, names in {
        "horovod": "run __version__",
        "horovod.run": "run",
        "horovod.run.runner": "run _HorovodArgs run_commandline",
        "horovod.runner": "run _HorovodArgs",
        "horovod.runner.launch": "run_commandline parse_args _run",
        "horovod.common": "",
        "horovod.common.basics": "HorovodBasics",
        "horovod.common.basics:HorovodBasics": f"""{_WHO} _add_process_set_impl _remove_process_set_impl
            _process_set_rank _process_set_size _get_process_set_ids_and_ranks _comm_process_set_id""",
        "horovod.common.process_sets": """ProcessSet global_process_set add_process_set remove_process_set _setup
            _init_process_sets _temp_process_set_object""",
        "horovod.common.process_sets:ProcessSet": """process_set_id ranks mpi_comm size rank included
            _invalidate""",
        "horovod.common.exceptions": """HorovodInternalError HostsUpdatedInterrupt HorovodVersionMismatchError
            get_version_mismatch_message""",
        "horovod.common.elastic": "State ObjectState run_fn notification_manager",
        "horovod.common.elastic:ObjectState": """register_reset_callbacks on_reset on_hosts_updated commit
            check_host_updates save restore sync reset""",
        "horovod.common.util": """get_ext_suffix get_extension_full_path check_extension extension_available
            gpu_available mpi_built gloo_built nccl_built ddl_built ccl_built _cache env
            get_average_backwards_compatibility_fun
            num_rank_is_power_2 split_list check_installed_version is_iterable is_version_greater_equal_than
            EXTENSIONS""",
        "horovod.data": "BaseDataLoader AsyncDataLoaderMixin",
        "horovod.data:AsyncDataLoaderMixin": "close_async_loader",
        "horovod.data.data_loader_base": "BaseDataLoader AsyncDataLoaderMixin",
        "horovod.metadata": "versions",
        "horovod.torch": f"""{_WHO} {_TORCH_OPERATIONS} {_TORCH_FUNCTIONS} DistributedOptimizer SyncBatchNorm
            Compression ProcessSet global_process_set add_process_set remove_process_set HorovodInternalError elastic
            _check_has_gpu""",
        "horovod.torch.mpi_ops": f"{_WHO} {_TORCH_OPERATIONS}",
        "horovod.torch.compression": "Compression",
        "horovod.torch.compression:Compression": "none fp16",
        "horovod.torch.functions": _TORCH_FUNCTIONS,
        "horovod.torch.optimizer": "DistributedOptimizer",
        "horovod.torch.elastic": "TorchState ElasticSampler run",
        "horovod.torch.elastic:ElasticSampler": "set_epoch record_batch state_dict load_state_dict reset",
        "horovod.torch.elastic.state": """TorchState StateHandler ModelStateHandler OptimizerStateHandler
            SamplerStateHandler get_handler_registry set_handler_registry""",
        "horovod.torch.elastic.sampler": "ElasticSampler",
    }.items()
}

#: What programs touch besides, private names among it. They have tests of their own.
MORE_NAMES: Dict[str, Set[str]] = {
    module: set(names.split())
    for module, names in {
        "horovod.common.util": "cache",
        "horovod.ray": "RayExecutor ElasticRayExecutor",
        "horovod.ray:RayExecutor": "create_settings start run run_remote execute execute_single shutdown",
        "horovod.spark": "run run_elastic",
        "horovod.runner.util.threads": "in_thread on_event execute_function_multithreaded",
        "horovod.runner.common.util.env": """LOG_LEVEL_STR IGNORE_REGEXES KUBEFLOW_MPI_EXEC is_exportable
            get_env_rank_and_size is_kubeflow_mpi""",
        "horovod.runner.common.util.hosts": """HostInfo SlotInfo INVALID_SLOT_INFO parse_hosts parse_hosts_and_slots
            parse_host_files get_host_assignments""",
        "horovod.runner.common.util.host_hash": "host_hash",
        "horovod.runner.common.util.timeout": "Timeout TimeoutException",
        "horovod.runner.common.util.secret": """HOROVOD_SECRET_KEY SECRET_LENGTH DIGEST_LENGTH make_secret_key
            compute_digest check_digest""",
        "horovod.runner.common.util.safe_shell_exec": "GRACEFUL_TERMINATION_TIME_S execute forward_stream",
        "horovod.torch": "_DistributedOptimizer",
        "horovod.torch.optimizer": "_DistributedOptimizer _DistributedAdasumOptimizer",
        "horovod.torch.optimizer:_DistributedOptimizer": "_allreduce_grad_async",
    }.items()
}

#: What ``horovodrun`` understands: the words, and an example of what follows them.
FLAGS: Dict[str, str] = {
    word: value
    for words, value in {
        "-cb --check-build --disable-cache --verbose": "",
        "-np --num-proc": "2",
        "--start-timeout --elastic-timeout --reset-limit --slots-per-host -p --ssh-port": "20",
        "--network-interfaces --network-interface": "eth0",
        "--output-filename --timeline-filename --autotune-log-file -i --ssh-identity-file": "a-file",
        "--fusion-threshold-mb --cache-capacity --num-nccl-streams --thread-affinity --gloo-timeout-seconds": "32",
        "--cycle-time-ms --autotune-gaussian-process-noise": "0.5",
        "--hierarchical-allreduce --no-hierarchical-allreduce --hierarchical-allgather --no-hierarchical-allgather": "",
        "--torus-allreduce --no-torus-allreduce --autotune --no-autotune": "",
        "--autotune-warmup-samples --autotune-steps-per-sample --autotune-bayes-opt-max-samples": "3",
        "--min-np --min-num-proc --max-np --max-num-proc": "2",
        "--blacklist-cooldown-range": "1 60",
        "--host-discovery-script": "./hosts.sh",
        "--timeline-mark-cycles --no-timeline-mark-cycles": "",
        "--no-stall-check --stall-check": "",
        "--stall-check-warning-time-seconds --stall-check-shutdown-time-seconds": "7",
        "--mpi-threads-disable --no-mpi-threads-disable --tcp": "",
        "--mpi-args --binding-args": "some",
        "--log-level": "DEBUG",
        "--log-with-timestamp --log-without-timestamp --log-hide-timestamp --no-log-hide-timestamp": "",
        "-prefix-timestamp --prefix-output-with-timestamp": "",
        "-H --hosts": "localhost:2",
        "--gloo --mpi --jsrun": "",
    }.items()
    for word in words.split()
}

#: The arguments of ``horovod.run``, in order.
RUN_ARGUMENTS = """func args kwargs num_proc min_num_proc max_num_proc slots reset_limit cooldown_range hosts hostfile
    host_discovery_script start_timeout ssh_port ssh_identity_file disable_cache output_filename verbose use_gloo
    use_mpi mpi_args network_interface network_interfaces executable np min_np max_np""".split()
