#!/usr/bin/env bash
# What seeing costs: the same load on one node alone, and on one with a decision log, traces of one call in a hundred to a collector, and a
# `stint watch` of denials; in turns, each run on a node with no data. Top is always on, so both have it. Needs python3 for the collector.
#
#   docs/benchmarks/seeing.sh [seconds for each run, default 3] [rounds, default 5]
. "$(dirname "$0")/common.sh"
seconds=${1:-3} rounds=${2:-5}

collector=127.0.0.1:$((base + 90))
cat > "$work/collector.py" << 'PYTHON'
import http.server, sys

class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Collector).serve_forever()
PYTHON
python3 "$work/collector.py" "${collector##*:}" &
pids[collector]=$!

cases=("--policy free --keys 10000 --protocol json" "--policy free --keys 10000 --protocol grpc --batch 100 --callers 16")
start() { # start alone|seen
    if [ -n "${pids[watch]:-}" ]; then stop watch; fi
    if [ "$1" = alone ]; then
        cluster 1
        return
    fi
    cluster 1 --decision-log "$work/decisions.ndjson" --trace-otlp "http://$collector" --trace-ratio 0.01
    "$stint" watch --denied --addr "$(address api 1)" > /dev/null 2>&1 &
    pids[watch]=$!
}
machine
beside "$rounds" "$seconds" alone seen
