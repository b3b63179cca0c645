#!/usr/bin/env bash
# Three nodes on this machine, load generator included: checks of a hot key and of 100 keys under a policy with a lease, beside the
# same policy without one. Every case ROUNDS times, in turns.
#
#   docs/benchmarks/leases.sh [seconds for each run, default 3] [rounds, default 3]
. "$(dirname "$0")/common.sh"
seconds=${1:-3} rounds=${2:-3}

cat >> "$work/policies.yaml" << 'YAML'
  leased: {lease: {units: 100000, for: 10s}, limits: [{name: day, quota: 1000000000000, fixed_window: {period: 24h, anchor: first_hit}}]}
YAML
cluster 3
start() { :; }
cases=()
for keys in 1 100; do
    for protocol in json grpc redis; do cases+=("--policy KIND --protocol $protocol --callers 64 --keys $keys"); done
done
machine
beside "$rounds" "$seconds" free leased
