package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/shard"
)

// A receiver that refuses what it has already gets each bill once, whatever becomes of an answer, and nobody is told to
// enter a bill by hand that is there.
func TestBillsWhoseAnswerWasLostAreNotEnteredByHand(t *testing.T) {
	t.Parallel()
	for kind, idsOf := range map[string]func(r *http.Request) []string{
		notify.Stripe: func(r *http.Request) []string { return []string{r.PostFormValue("identifier")} },
		notify.CloudEvents: func(r *http.Request) (ids []string) {
			var all []usageEvent
			json.NewDecoder(r.Body).Decode(&all)
			for _, e := range all {
				ids = append(ids, e.ID)
			}
			return ids
		},
		notify.Webhook: func(r *http.Request) []string { return []string{r.Header.Get("webhook-id")} },
	} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var mu sync.Mutex
				taken, requests := map[string]bool{}, 0
				receiver := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					requests++
					ids := idsOf(r)
					for _, id := range ids {
						switch {
						case !taken[id]:
						case kind == notify.Stripe:
							w.WriteHeader(http.StatusBadRequest)
							fmt.Fprintf(w, `{"error":{"type":"invalid_request_error",`+
								`"message":"An event already exists with identifier %s."}}`, id)
							return
						default:
							w.WriteHeader(http.StatusConflict)
							return
						}
					}
					for _, id := range ids {
						taken[id] = true
					}
					if requests == 1 || requests == 4 { // it has them, and its answer is lost
						w.WriteHeader(http.StatusInternalServerError)
					}
					io.WriteString(w, "{}")
				}))
				receiver.Start()
				t.Cleanup(receiver.Close)
				n, clock := meteredNode(t)
				sendNoBillsTo(n, "money")
				sink := notify.Sink{Name: "money", Kind: kind, URL: receiver.URL + "/bills"}
				if kind != notify.Webhook {
					sink.Prefix, sink.Secrets = "customer:", []notify.Secret{{Key: []byte("key_test_1")}}
				}
				sendBillsTo(t, n, sink)
				const keys = 5
				for i := range keys {
					if r := ask(n, shard.Check, "plan", fmt.Sprint("customer:", i)); r.Err != nil {
						t.Fatal(r.Err)
					}
				}
				endDay(t, clock)
				var log bytes.Buffer
				p := newOwner(n)
				p.logger = slog.New(slog.NewTextHandler(&log, nil))
				for round := 0; ; round++ {
					p.round(t.Context())
					if len(p.failing()) == 0 {
						break
					}
					if round == 20 {
						t.Fatalf("%v after %d rounds", p.failing(), round)
					}
					for name, r := range p.rests { // it has rested
						r.until = time.Time{}
						p.rests[name] = r
					}
				}
				if strings.Contains(log.String(), "by hand") || kind != notify.Webhook && len(taken) != keys {
					t.Errorf("%d of %d bills are there; %s", len(taken), keys, log.String())
				}
			})
		})
	}
}

// A sink that failed at one bill has no other bill: of that, "I have it" is no answer to a retry.
func TestOnlyABillThatWasSentIsTriedAgain(t *testing.T) {
	p := &pusher{}
	money, other := &notify.Sink{Name: "money"}, &notify.Sink{Name: "other"}
	bill := func(key string) shard.Usage { return shard.Usage{Policy: "plan", Key: key} }
	for _, c := range []struct {
		sink  *notify.Sink
		bills []shard.Usage
		again bool
	}{
		{money, []shard.Usage{bill("a"), bill("b")}, false},
		{money, []shard.Usage{bill("c")}, false},
		{other, []shard.Usage{bill("a")}, false},
		{money, []shard.Usage{bill("d"), bill("b")}, true},
	} {
		if again := p.tries(c.sink, c.bills); again != c.again {
			t.Errorf("%s is sent %v again: %t", c.sink.Name, c.bills, again)
		}
	}
}
