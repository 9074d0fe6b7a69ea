#!/bin/bash
# Trains on all GPUs of this machine:  scripts/train.sh [options of train.py]
set -euo pipefail
cd "$(dirname "$0")/.."

export HABANA_VISIBLE_MODULES=${HABANA_VISIBLE_MODULES:-0,1}
export CUDA_DEVICE_MAX_CONNECTIONS=1
export NCCL_DEBUG=WARN
export NCCL_IB_DISABLE=1
export OMP_NUM_THREADS=4

hl-smi --query-aip=name,memory.total --format=csv

GPUS=$(echo "$HABANA_VISIBLE_MODULES" | tr ',' '\n' | wc -l)
export PT_HPU_LAZY_MODE=0
torchrun --standalone --nproc_per_node="$GPUS" train.py \
    --config config/verses.yaml \
    --dtype float16 \
    "$@"
