//go:build proxies

package examples

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/testcluster"
)

var measure = flag.Duration("measure", 0, "how long each round of TestWhatAskingCosts lasts")

// TestWhatAskingCosts measures what a request costs that nginx asks about, beside the question alone and beside a
// request about which it asks nothing. It demands nothing, and runs only when asked:
//
//	go test -tags proxies -count=1 -v -run '^TestWhatAskingCosts$' ./examples -measure 5s
func TestWhatAskingCosts(t *testing.T) {
	if *measure == 0 {
		t.Skip("it measures this machine, and only when asked: -measure 5s")
	}
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	write(t, policies, strings.Replace(read(t, "nginx/policies.yaml"), "quota: 1000, sliding_log",
		"quota: 1000000000, fixed_window", 1))
	w := frontOf(t, programs[0], policies, testcluster.Options{Nodes: 3}, "")
	ways := []struct {
		name    string
		request func(caller, n int) (*http.Request, error)
	}{
		{"the gate alone", func(caller, n int) (*http.Request, error) {
			r, err := http.NewRequest("GET", "http://"+w.nodes.Addr(n%w.nodes.Len())+"/gate/web", nil)
			if err == nil {
				r.Header = http.Header{"X-Forwarded-For": {fmt.Sprintf("10.0.0.%d", caller)},
					"X-Original-Method": {"POST"}, "X-Original-Uri": {"/items"},
					"X-Request-Id": {fmt.Sprint(time.Now().UnixNano(), caller, n)}}
			}
			return r, err
		}},
		{"nginx and the gate", func(int, int) (*http.Request, error) {
			return http.NewRequest("POST", "http://"+w.address+"/items", nil)
		}},
		{"nginx without it", func(int, int) (*http.Request, error) {
			return http.NewRequest("POST", "http://"+w.address+"/static/a", nil)
		}},
	}
	const rounds = 5
	rates, tails := make([][]float64, len(ways)), make([][]float64, len(ways))
	for round := range rounds + 1 {
		for i, way := range ways {
			rate, tail := w.load(*measure, way.request)
			if round > 0 { // the first one warms up
				rates[i], tails[i] = append(rates[i], rate), append(tails[i], tail.Seconds()*1000)
			}
		}
	}
	for i, way := range ways {
		t.Logf("%-20s %6.0f/s (%.2f)   p99 %6.1f ms (%.2f)", way.name, median(rates[i]),
			median(rates[i])/median(rates[0]), median(tails[i]), median(tails[i])/median(tails[0]))
	}
}

// load has a crowd send requests for a time, and returns how many a second were answered with 200, and the time within
// which 99 of 100 were.
func (w *world) load(
	last time.Duration, request func(caller, n int) (*http.Request, error),
) (perSecond float64, tail time.Duration) {
	var mu sync.Mutex
	var all []time.Duration
	var failed atomic.Int64
	var callers sync.WaitGroup
	began := time.Now()
	for caller := range crowd {
		c := w.from(fmt.Sprintf("127.0.2.%d", caller+1))
		callers.Go(func() {
			var took []time.Duration
			for n := caller; time.Since(began) < last; n++ {
				r, err := request(caller, n)
				if err != nil {
					w.Error(err)
					return
				}
				sent := time.Now()
				response, err := c.Do(r)
				if err != nil {
					w.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body) // its status is what counts
				_ = response.Body.Close()
				if response.StatusCode == http.StatusOK {
					took = append(took, time.Since(sent))
				} else {
					failed.Add(1)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	callers.Wait()
	if len(all) == 0 {
		w.Fatal("nobody was answered")
	}
	if n := failed.Load(); n > 0 {
		w.Logf("%d of %d were not decided in time", n, len(all)+int(n))
	}
	return float64(len(all)) / time.Since(began).Seconds(), quantile(all, 0.99)
}

func median(of []float64) float64 { return quantile(of, 0.5) }

func quantile[T cmp.Ordered](of []T, q float64) T {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[int(q*float64(len(sorted)-1))]
}
