#!/bin/bash
# One share of an experiment for each task of a Slurm array: sbatch slurm-array.sh my-experiment.toml
#SBATCH --job-name=bigain
#SBATCH --array=1-8
#SBATCH --cpus-per-task=4
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
#SBATCH --requeue
set -euo pipefail

experiment=${1:?usage: sbatch slurm-array.sh FILE}
bigain run "$experiment" --out "runs/$(basename "$experiment" .toml)" --shard auto \
    --device "${DEVICE:-cuda}" --threads "${SLURM_CPUS_PER_TASK:-4}"
