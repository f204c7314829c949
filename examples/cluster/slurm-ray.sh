#!/bin/bash
# A Ray cluster inside of one Slurm job of several nodes: sbatch slurm-ray.sh my-experiment.toml
#SBATCH --job-name=bigain
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:4
#SBATCH --time=12:00:00
set -euo pipefail

experiment=${1:?usage: sbatch slurm-ray.sh FILE}
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export RAY_USAGE_STATS_ENABLED=0 RAY_ADDRESS="$head:6379"

srun --nodes=1 --ntasks=1 --nodelist="$head" ray start --head --port=6379 --include-dashboard=false --block &
sleep 15
srun --nodes=$((SLURM_NNODES - 1)) --ntasks=$((SLURM_NNODES - 1)) --exclude="$head" \
    ray start --address="$RAY_ADDRESS" --block &
sleep 15
srun --nodes=1 --ntasks=1 --nodelist="$head" --overlap \
    bigain run "$experiment" --cluster auto --device "${DEVICE:-cuda}"
