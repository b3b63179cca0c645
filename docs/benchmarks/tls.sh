#!/usr/bin/env bash
# What TLS and tokens cost: the same load on one node without both, and with certificates on its ports for clients and a token
# that may check the load's policy, in turns, each run on a node with no data. Connections are kept, as clients keep them:
# handshakes are not measured. TMPDIR says which disk.
#
#   docs/benchmarks/tls.sh [seconds for each run, default 3] [rounds, default 5]
. "$(dirname "$0")/common.sh"
seconds=${1:-3} rounds=${2:-5}

openssl ecparam -name prime256v1 -genkey -noout -out "$work/key.pem"
openssl req -x509 -new -key "$work/key.pem" -days 1 -subj "/CN=localhost" -addext subjectAltName=IP:127.0.0.1 -out "$work/cert.pem"

cases=()
for protocol in json grpc redis; do
    for batch in 1 16; do
        cases+=("--policy free --keys 100000 --protocol $protocol --batch $batch")
    done
done

# plain, secured: starts the node, and sets the environment of those who ask it.
plain() {
    unset STINT_CA STINT_API_CERT STINT_API_KEY STINT_TOKEN_FILE
    cluster 1
}
secured() {
    export STINT_CA=$work/cert.pem STINT_API_CERT=$work/cert.pem STINT_API_KEY=$work/key.pem
    unset STINT_TOKEN_FILE
    cluster 1
    "$stint" token create load --expires 1d --grant 'policy=free ops=check,read' --grant ops=observe --data-dir "$work/data-1" > "$work/load.token"
    export STINT_TOKEN_FILE=$work/load.token
}

machine
for round in $(seq "$rounds"); do
    for mode in plain secured; do
        $mode
        for i in "${!cases[@]}"; do
            # shellcheck disable=SC2086
            bench ${cases[$i]} --duration "${seconds}s" >> "$work/$mode-$i"
        done
    done
done
echo
echo "| case | checks/s, plain (range) | TLS and token (range) | ratio, round by round (range) | p99 us, plain, secured | servers' CPU us/check, plain, secured |"
echo "|-|-|-|-|-|-|"
for i in "${!cases[@]}"; do
    jq -rn --arg name "${cases[$i]}" --slurpfile plain "$work/plain-$i" --slurpfile secured "$work/secured-$i" '
        def median: sort | .[length / 2 | floor];
        def rate: map(.checksPerSecond);
        def shown: "\(median | round) (\(min | round)-\(max | round))";
        def percent: . * 100 | round / 100;
        [$plain, $secured] | transpose | map(.[1].checksPerSecond / .[0].checksPerSecond) as $ratios |
        "| `\($name)` | \($plain | rate | shown) | \($secured | rate | shown) | \($ratios | median | percent) (\($ratios | min | percent)-\(
        $ratios | max | percent)) | \($plain | map(.latencyMicros.p99) | median), \($secured | map(.latencyMicros.p99) | median) | \(
        $plain | map(.serverCpuMicrosPerCheck) | median | percent), \($secured | map(.serverCpuMicrosPerCheck) | median | percent) |"'
done
