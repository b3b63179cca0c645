package node

import (
	"net/http"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// An event goes to the sink that has the name by then, whatever the receiver of the former one says, and however late.
func TestAnEventGoesToTheSinkThatHasTheName(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		status int
		late   bool // it answers when the other sink is known
	}{
		"wants nothing":           {http.StatusGone, true},
		"wants it tomorrow":       {http.StatusTooManyRequests, false},
		"wanted it the day after": {http.StatusTooManyRequests, true},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				asked, replaced := make(chan struct{}, 9), make(chan struct{})
				former := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					asked <- struct{}{}
					if c.late {
						<-replaced
					}
					w.Header().Set("Retry-After", "86400")
					w.WriteHeader(c.status)
				}))
				former.Start()
				t.Cleanup(former.Close)
				taken := make(chan struct{}, 9)
				latter := newServer(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					taken <- struct{}{}
				}))
				latter.Start()
				t.Cleanup(latter.Close)
				config := testConfig(t)
				withThresholds(t, &config)
				n := start(t, config)
				defer stop(t, n)
				sink := notify.Sink{Name: "billing", Kind: notify.Webhook, URL: former.URL,
					Events: []string{notify.Threshold}}
				if _, err := n.sinkAdmin.Create(t.Context(), sink, "jo"); err != nil {
					t.Fatal(err)
				}
				for range 5 {
					ask(n, shard.Check, "plan", "acme")
				}
				await.Receive(t, "the former receiver is asked", asked)
				if !c.late {
					await.Until(t, "it has answered", func() bool { return n.dispatcher.failing()["billing"] != "" })
				}
				if err := n.sinkAdmin.Delete(t.Context(), "billing", "jo"); err != nil {
					t.Fatal(err)
				}
				sink.URL = latter.URL
				if _, err := n.sinkAdmin.Create(t.Context(), sink, "jo"); err != nil {
					t.Fatal(err)
				}
				if c.late {
					time.Sleep(sinksEvery + time.Second)
				}
				close(replaced)
				await.Receive(t, "the event arrives", taken)
				all, err := n.sinkAdmin.Sinks(t.Context())
				if err != nil || len(all) != 1 || all[0].Disabled != nil {
					t.Errorf("%v: %+v", err, all)
				}
			})
		})
	}
}
