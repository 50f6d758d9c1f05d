#!/bin/bash
# `tune reconcile` on a real GPU: bytes and weights of every format on the device, and kernels that decode wrongly are found.
set -u
cd "$(dirname "$0")/../.." || exit 1
export TUNE=${TUNE:-$PWD/build/tune}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
TERN_BACKEND=cuda PYTHONDONTWRITEBYTECODE=1 python3 tests/offline/checkpoint_reconcile.py "$work"
