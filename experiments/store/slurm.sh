#!/bin/bash
# A campaign on the nodes of a Slurm job: a Ray head on the first, a worker on each of the others, all seeing one folder.
# sbatch --nodes=4 --cpus-per-task=32 experiments/store/slurm.sh ladder --profile long --out /shared/out
#SBATCH --ntasks-per-node=1
export RAY_AUTH_MODE=token RAY_ADDRESS=$(hostname):6379
ray get-auth-token --generate > /dev/null  # in the home folder, from which all nodes read it
ray start --head --port=6379 --num-cpus="$SLURM_CPUS_PER_TASK" --include-dashboard=false
[ "$SLURM_NNODES" -eq 1 ] || srun --nodes=$((SLURM_NNODES - 1)) --ntasks=$((SLURM_NNODES - 1)) --exclude="$(hostname)" \
    ray start --address="$RAY_ADDRESS" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
crosslayer run "$@" --on ray; status=$?
ray stop
exit $status
