#!/bin/bash
# Trains on all GPUs of this machine:  scripts/train.sh [options of train.py]
set -euo pipefail
cd "$(dirname "$0")/.."

export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0,1}
export CUDA_DEVICE_MAX_CONNECTIONS=1
export NCCL_DEBUG=WARN
export NCCL_IB_DISABLE=1
export OMP_NUM_THREADS=4

nvidia-smi --query-gpu=name,memory.total --format=csv

GPUS=$(echo "$CUDA_VISIBLE_DEVICES" | tr ',' '\n' | wc -l)
torchrun --standalone --nproc_per_node="$GPUS" train.py \
    --config config/verses.yaml \
    --dtype float16 \
    "$@"
