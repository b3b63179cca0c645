package node

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
)

// BenchmarkGateBesideCheck asks the port of the API for single checks of 100,000 keys, 64 at a time, as JSON and by a
// gate, as nginx does. An iteration is a second of each, in turns:
//
//	go test ./node -run '^$' -bench GateBesideCheck -benchtime 10x
func BenchmarkGateBesideCheck(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			c := trioToBe(b)
			for i := range nodes {
				c.configs[i].BootstrapExpect = nodes
				if nodes == 1 {
					c.configs[i].Join = nil
				}
				c.configs[i].Logger = slog.New(slog.DiscardHandler)
				rules := lifetimePolicy + `gates: {web: {trusted_proxies: [127.0.0.1/32], proxy: nginx, no_match: deny,
  routes: [{match: {method: GET, prefix: /}, entries: [{policy: plenty, key: "{ip}"}]}]}}
`
				if err := os.WriteFile(c.configs[i].PoliciesFile, []byte(rules), 0o600); err != nil {
					b.Fatal(err)
				}
				c.start(i)
			}
			var urls []string
			for i := range nodes {
				c.ready(i)
				urls = append(urls, "http://"+c.nodes[i].APIAddr())
			}
			caller := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			b.Cleanup(caller.CloseIdleConnections)
			var undecided atomic.Int64 // within the 250 ms of the gate
			do := func(r *http.Request) error {
				answer, err := caller.Do(r)
				if err != nil {
					return err
				}
				defer answer.Body.Close()
				text, err := io.ReadAll(answer.Body)
				if answer.Header.Get("Stint-Failed") != "" {
					undecided.Add(1)
				}
				if err == nil && answer.StatusCode != http.StatusOK {
					err = fmt.Errorf("%d %v %s", answer.StatusCode, answer.Header, text)
				}
				return err
			}
			direct := func(ctx context.Context, url, key string) error {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/stint.v1.LimitService/Check",
					strings.NewReader(`{"entries":[{"policy":"plenty","key":"`+key+`"}]}`))
				if err != nil {
					return err
				}
				r.Header.Set("Content-Type", "application/json")
				return do(r)
			}
			gate := func(ctx context.Context, url, key string) error {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/gate/web?deny=403", nil)
				if err != nil {
					return err
				}
				sum := fnv.New32a()
				io.WriteString(sum, key)
				r.Header.Set("X-Original-Method", "GET")
				r.Header.Set("X-Original-URI", "/page")
				r.Header.Set("X-Forwarded-For", fmt.Sprintf("203.%d.%d.%d",
					sum.Sum32()>>16&255, sum.Sum32()>>8&255, sum.Sum32()&255))
				return do(r)
			}
			besideCheck(b, "gate", urls, direct, gate)
			b.ReportMetric(float64(undecided.Load()), "undecided")
		})
	}
}
