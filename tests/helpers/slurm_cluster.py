"""A Slurm of its own in a folder, a controller and two nodes on this machine.

Its n2 has two stand-in GPUs.
"""

import os
import shutil
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")
CONFIGURATION = """
ClusterName=recap
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
ReturnToService=2
SlurmdTimeout=10
KillWait=30
MinJobAge=43200
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
MpiDefault=none
SchedulerParameters=sched_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu,shard
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4 RealMemory=32000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4 RealMemory=32000 \
Gres=gpu:2,shard:4
PartitionName=cpu Nodes=n1 Default=YES MaxTime=INFINITE State=UP
PartitionName=first Nodes=n1 PriorityTier=10 MaxTime=INFINITE State=UP
PartitionName=gpu Nodes=n2 MaxTime=INFINITE State=UP
"""


def missing():
    """Return what of Slurm is not here, as a reason to skip; "" if all is."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if absent:
        return f"{', '.join(absent)} not installed (Debian: slurm-wlm, munge)"
    if find_spec("snakemake_executor_plugin_slurm") is None:
        return "snakemake-executor-plugin-slurm is not installed (the extra `slurm`)"
    return "" if os.geteuid() == 0 else "several slurmd on one machine are tried as root alone"


class Cluster:
    """Daemons that run until `stop`; ``environment`` is that of commands which use them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: dict[str, subprocess.Popen] = {}
        # Job processes need libraries, sbatch and Python; slurmctld and slurmd are in sbin.
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SLURM_")},
            "PATH": f"{folder}/bin:{os.environ['PATH']}:/usr/sbin:/sbin",
            "SLURM_CONF": str(folder / "slurm.conf"),
        }
        for name in ("state", "spool-n1", "spool-n2", "bin"):
            (folder / name).mkdir(parents=True)
        # The plugin starts srun without any variable of Slurm,
        # as on a cluster whose configuration is in /etc.
        srun = folder / "bin" / "srun"
        srun.write_text(
            f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which("srun")} "$@"\n'
        )
        srun.chmod(0o755)
        host = socket.gethostname().partition(".")[0]
        (folder / "slurm.conf").write_text(
            CONFIGURATION.format(host=host, folder=folder, user="root", ports=free_ports(3))
        )
        gpus = [f"NodeName=n2 Name=gpu File=/dev/{name}\n" for name in ("null", "zero")]
        (folder / "gres.conf").write_text("".join([*gpus, "NodeName=n2 Name=shard Count=4\n"]))
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)

    def start(self) -> None:
        """Start all daemons and wait until both nodes are idle."""
        files = [
            f"--{kind}-file={self.folder}/munge.{kind}" for kind in ("key", "pid", "log", "seed")
        ]
        self._run(
            "munged", "--force", "--foreground", f"--socket={self.folder}/munge.socket", *files
        )
        self._wait(lambda: (self.folder / "munge.socket").exists(), "munged")
        self._run("slurmctld", "-D", "-c")
        for node in ("n1", "n2"):
            self.start_node(node)

    def start_node(self, node: str) -> None:
        """Start the daemon of a node, and wait until it may take jobs."""
        self._run(f"slurmd-{node}", "-D", "-N", node, program="slurmd")
        self._wait(
            lambda: (
                self.said("sinfo", "-h", "-N", "-n", node, "-o", "%t").split()[:1]
                in (["idle"], ["mix"])
            ),
            node,
        )

    def kill_node(self, node: str) -> None:
        """Kill the daemon of a node and all that it started, as a lost node does."""
        import psutil

        daemon = self.daemons.pop(f"slurmd-{node}")
        # slurmstepd leaves slurmd's family,
        # and names neither its node nor its configuration: its open files do.
        steps = [
            each for each in psutil.process_iter(["name"]) if each.info["name"] == "slurmstepd"
        ]
        lost = [each for each in steps if f"SLURMD_NODENAME={node}" in _environment_below(each)]
        for process in [psutil.Process(daemon.pid), *lost]:
            for child in process.children(recursive=True):
                child.kill()
            process.kill()
        daemon.wait()

    def stop(self) -> None:
        """Cancel all jobs and end the daemons."""
        if "slurmctld" in self.daemons:
            for partition in ("cpu", "first", "gpu"):
                self.said("scancel", f"--partition={partition}")
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def said(self, *command: str) -> str:
        """Return what a command of Slurm prints."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=60
        )
        return done.stdout

    def jobs(self, layout: str = "%i %T %k") -> list[str]:
        """Return a line of squeue for each job, finished ones among them."""
        return self.said("squeue", "-h", "--states=all", "-o", layout).splitlines()

    def _run(self, name: str, *arguments: str, program: str = "") -> None:
        log = (self.folder / f"{name}.out").open("w")
        command = [shutil.which(program or name, path=self.environment["PATH"]), *arguments]
        self.daemons[name] = subprocess.Popen(
            command, env=self.environment, stdout=log, stderr=log, start_new_session=True
        )

    def _wait(self, ready, what: str) -> None:
        end = time.monotonic() + 60
        while not ready():
            if time.monotonic() > end:
                logs = "\n".join(file.read_text()[-1500:] for file in self.folder.glob("*.out"))
                raise AssertionError(f"{what} did not start:\n{logs}")
            time.sleep(0.2)


def _environment_below(process) -> set[str]:
    """Return the environment variables of a process's children, as NAME=VALUE."""
    result: set[str] = set()
    for child in process.children():
        result |= {f"{name}={value}" for name, value in child.environ().items()}
    return result


def free_ports(number: int) -> list[int]:
    """Return TCP ports that nothing listens on."""
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
