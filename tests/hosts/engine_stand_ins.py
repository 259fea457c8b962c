"""What the programs of containers.Engines do with their command line."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import List, Sequence

IMAGES = ("ronde", "ronde.sif")
#: podman as any machine can run it: with runc, without systemd, and with what it keeps in the host's own /tmp.
PODMAN = [os.environ.get("PODMAN", "podman"), "--runtime", "runc", "--cgroup-manager", "cgroupfs", "--storage-driver", "vfs",
          "--root", "/tmp/podman-root", "--runroot", "/tmp/podman-run"]
#: Below which podman makes those of its containers; containers.Engines hands the test's on.
CONTROL_GROUP = os.environ.get("BED_CONTROL_GROUP", f"/ronde-bed-{os.getpid()}")
#: Those that podman would set are beyond some machines'.
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=2000:2000"]


def _split(words: Sequence[str], command: str) -> "tuple[List[str], List[str]]":
    """The options before the image, and the command behind it."""
    if words[:1] != [command]:
        sys.exit(f"this stand-in knows '{command}' alone: {' '.join(words)}")
    at = next(number for number, word in enumerate(words) if word in IMAGES)
    return list(words[1:at]), list(words[at + 1:])


def apptainer(words: Sequence[str], folders: Sequence[str]) -> None:
    """exec [--contain] [--bind FOLDER] IMAGE COMMAND...: by bubblewrap."""
    options, command = _split(list(words), "exec")
    made = ["bwrap", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc"]
    shown = [*folders, os.getcwd()]
    if "--contain" in options:
        options.remove("--contain")
        made += ["--dev", "/dev", "--size", "65536", "--tmpfs", "/dev/shm", "--tmpfs", "/tmp"]
    else:
        made += ["--dev-bind", "/dev", "/dev"]
        shown += ["/tmp", os.environ.get("HOME", "/tmp")]
    while options[:1] == ["--bind"]:
        shown.append(options[1])
        del options[:2]
    assert not options, options
    for folder in shown:
        made += ["--bind", folder, folder]
    os.execvp("bwrap", [*made, *command])


def podman(words: Sequence[str], folders: Sequence[str]) -> None:
    """run OPTIONS... IMAGE COMMAND...: by podman with a fresh root folder."""
    options, command = _split(list(words), "run")
    root = Path(tempfile.mkdtemp(prefix="root-", dir="/tmp"))
    root.chmod(0o755)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc").mkdir()
    for name in ("passwd", "group"):
        (root / "etc" / name).write_text(Path("/etc", name).read_text())
    made = [*PODMAN, "run", "--cgroup-parent", CONTROL_GROUP, *LIMITS, "--log-driver", "none"]
    for folder in ("/usr", *folders):
        made += ["--volume", f"{folder}:{folder}:ro"]
    # What the image would say, and what of the test's environment an image knows nothing of.
    for name in ("PATH", "RONDE_PROBE", "RONDE_INIT_TIMEOUT_S", "OMP_NUM_THREADS", "RONDE_LOG_LEVEL"):
        made += ["--env", name] if name in os.environ else []
    os.execvp(made[0], [*made, *options, "--rootfs", str(root), *command])
