#!/bin/sh
# Runs the command of one rank in a container of podman's or Docker's. The launcher outside says which rank it is.
#
#     export MASTER_ADDR=node1 RONDE_KEY=$(openssl rand -hex 32)
#     srun -N 2 -n 4 examples/containers/rank_in_container.sh podman ronde python train.py
#
# MASTER_ADDR is the host of rank 0. RONDE_KEY is the same for all ranks and new for each job. Apptainer needs no such
# script: it hands on the environment and the descriptors of who calls it.
set -eu
engine=$1 image=$2
shift 2
: "${MASTER_ADDR:?set it to the host of rank 0}" "${RONDE_KEY:?set it, on all hosts to the same (openssl rand -hex 32)}"
RANK=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:?neither mpirun nor srun has started this}}}
WORLD_SIZE=${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-${SLURM_STEP_NUM_TASKS:?}}}
MASTER_PORT=${MASTER_PORT:-29500}
export RANK WORLD_SIZE MASTER_PORT
# Docker's daemon is root's. Without --user files would be, too. With podman root inside is the user outside.
user=
if [ "$engine" = docker ]; then user="--user $(id -u):$(id -g)"; fi
# The host's network and name: by the first ranks of a host find that they can share memory, by the second that they are
# of one host.
exec "$engine" run --rm --network host --uts host $user --env RANK --env WORLD_SIZE --env MASTER_ADDR --env MASTER_PORT \
  --env RONDE_KEY --volume "$PWD:$PWD" --workdir "$PWD" "$image" "$@"
