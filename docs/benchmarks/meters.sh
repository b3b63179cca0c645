#!/usr/bin/env bash
# What a meter and thresholds cost: the same load on one node under a policy without both, with a meter, with thresholds that it does
# not cross, and with both, in turns, each run on a node with no data. TMPDIR says which disk.
#
#   docs/benchmarks/meters.sh [seconds for each run, default 3] [rounds, default 5]
. "$(dirname "$0")/common.sh"
seconds=${1:-3} rounds=${2:-5}

limit='name: day, quota: 1000000000000, fixed_window: {period: 24h, anchor: first_hit}'
meter='meter: {name: calls, calendar: {unit: month}}'
thresholds='thresholds: [80%, 100%, 500000000000]'
cat > "$work/policies.yaml" << YAML
policies:
  plain:      {limits: [{$limit}]}
  metered:    {limits: [{$limit}], $meter}
  thresholds: {limits: [{$limit, $thresholds}], notify: [billing]}
  both:       {limits: [{$limit, $thresholds}], notify: [billing], $meter}
YAML
cases=("--policy KIND --keys 100000 --protocol json" "--policy KIND --keys 100000 --protocol grpc --batch 100 --callers 16"
    "--policy KIND --protocol grpc --batch 100 --callers 16")
start() { cluster 1; }
machine
beside "$rounds" "$seconds" plain metered thresholds both
