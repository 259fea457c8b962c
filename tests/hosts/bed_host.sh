#!/bin/bash
# Pid 1 of a host of the bed, in namespaces of its own: bed_host.sh NAME FOLDER KEPT...
# FOLDER holds this host's hosts, boot_id and machine-id, which hide the machine's. KEPT: folders below /tmp or /dev/shm
# that stay visible when the host gets its own of these two.
set -eu
name=$1 folder=$2
shift 2

hostname "$name"
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /run/munge /run/kept
mount --bind "$folder/hosts" /etc/hosts
mount --bind "$folder/boot_id" /proc/sys/kernel/random/boot_id
if [[ -e /etc/machine-id ]]; then mount --bind "$folder/machine-id" /etc/machine-id; fi

# What the machine shows of its network interfaces is replaced by the host's; the control groups stay.
mkdir /run/kept/cgroup
if mount --rbind /sys/fs/cgroup /run/kept/cgroup && mount -t sysfs sysfs /sys; then
  mount --move /run/kept/cgroup /sys/fs/cgroup
fi

number=0
for kept in "$@"; do
  mkdir "/run/kept/$((++number))"
  mount --rbind "$kept" "/run/kept/$number"
done
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777,size="${BED_SHM_SIZE:-256m}" tmpfs /dev/shm
number=0
for kept in "$@"; do
  mkdir -p "$kept"
  mount --move "/run/kept/$((++number))" "$kept"
done

# Waiting, bash reaps whom other processes leave behind.
echo ready
exec >/dev/null
while true; do
  sleep infinity &
  wait "$!" || true
done
