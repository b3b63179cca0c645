package main

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

// greet writes in one line that the node is ready, and with --dev examples to try.
func (c *serveCommand) greet(w io.Writer, addr, redis string, took time.Duration) {
	addr = dialable(addr)
	url := "http://" + addr
	if c.APICert != "" {
		url = "https://" + addr
	}
	fmt.Fprintf(w, "stint is ready at %s (after %d ms)\n", url, took.Milliseconds())
	if redis != "" {
		fmt.Fprintf(w, "and to clients of Redis at %s\n", dialable(redis))
	}
	if !c.Dev || c.PoliciesFile != "" || c.APICert != "" {
		return
	}
	flag := ""
	if addr != "127.0.0.1:7400" {
		flag = " --addr " + url
	}
	fmt.Fprint(w, strings.NewReplacer("URL", url, " ADDR", flag).Replace(whatToTry))
	if host, port, err := net.SplitHostPort(dialable(redis)); err == nil {
		fmt.Fprint(w, strings.NewReplacer("HOST", host, "PORT", port).Replace(whatToTryWithRedis))
	}
	if c.DataDir == "" {
		fmt.Fprintln(w, "What it counts is gone when you stop it (Ctrl-C): give --data-dir DIR to keep it.")
	}
}

// dialable turns the address of a listener on all interfaces into one that can be dialed on this machine.
func dialable(addr string) string {
	bound, err := netip.ParseAddrPort(addr)
	if err != nil || !bound.Addr().IsUnspecified() {
		return addr
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), bound.Port()).String()
}

const whatToTry = `
Spend one. Policy per-ip lets every key spend 100 a minute:

  curl -s URL/stint.v1.LimitService/Check -H 'content-type: application/json' \
       -d '{"entries":[{"policy":"per-ip","key":"203.0.113.7"}]}'

Ask 101 times, and count the times it said yes. It is 100 (unless a minute begins in between):

  for i in $(seq 101); do
    curl -s URL/stint.v1.LimitService/Check -H 'content-type: application/json' \
         -d '{"entries":[{"policy":"per-ip","key":"198.51.100.9"}]}'; echo
  done | grep -cE '"decision": ?\{"allowed": ?true'

Or with stint's own commands ("go build ./cmd/stint" builds the binary):

  ./stint check per-ip 203.0.113.7 ADDR
  ./stint tool bench --policy login --callers 64 --count 5000 ADDR

`

const whatToTryWithRedis = `Or with what you have for Redis: 5 at once and 2 a second, and a plain counter:

  redis-cli -h HOST -p PORT CL.THROTTLE user:42 4 2 1
  redis-cli -h HOST -p PORT INCR visits

`
