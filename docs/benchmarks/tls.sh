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

start() { # start plain|secured: and sets the environment of those who ask
    unset STINT_CA STINT_API_CERT STINT_API_KEY STINT_TOKEN_FILE
    if [ "$1" = plain ]; then
        cluster 1
        return
    fi
    export STINT_CA=$work/cert.pem STINT_API_CERT=$work/cert.pem STINT_API_KEY=$work/key.pem
    cluster 1
    "$stint" token create load --expires 1d --grant 'policy=free ops=check,read' --grant ops=observe --data-dir "$work/data-1" > "$work/load.token"
    export STINT_TOKEN_FILE=$work/load.token
}
machine
beside "$rounds" "$seconds" plain secured
