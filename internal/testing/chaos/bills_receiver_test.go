//go:build chaos

package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

// billReceiver is a webhook that refuses some messages at first, and takes some without saying so.
type billReceiver struct {
	*httptest.Server
	mu       sync.Mutex
	messages int
	again    int
	seen     map[string]bool
	events   map[string]reached
	bills    map[string]pushedBill
}

// pushedBill is a bill as it was sent last.
type pushedBill struct {
	ID, Policy, Meter, Key   string
	Start                    time.Time
	Units, Credits, Revision uint64 `json:",string"`
	Recovered                bool
}

func newBillReceiver(t *testing.T) *billReceiver {
	t.Helper()
	r := &billReceiver{seen: map[string]bool{}, events: map[string]reached{}, bills: map[string]pushedBill{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return // the node was killed
		}
		switch answers, err := r.take(body, q.Header.Get("webhook-id")); {
		case err != nil:
			t.Error(err)
		case answers == http.StatusOK:
		case answers == 0:
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(answers)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// take notes a message, and returns the status to answer; 0: none.
func (r *billReceiver) take(body []byte, id string) (answers int, err error) {
	var m struct {
		Type, ID string
		Data     struct {
			Policy, Key string
			Units       uint64
			Start, End  time.Time
			Records     []pushedBill
		}
	}
	if err := json.Unmarshal(body, &m); err != nil || m.ID != id || id == "" {
		return http.StatusBadRequest, fmt.Errorf("message %s, %v: %s", id, err, body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages++
	if r.messages == 3 {
		return http.StatusServiceUnavailable, nil
	}
	if r.seen[id] {
		r.again++
	}
	r.seen[id] = true
	if m.Type == "threshold.reached" {
		e := reached{m.Data.Policy, m.Data.Key, m.Data.Start.UnixMicro(), m.Data.Units}
		if m.Data.End.IsZero() {
			e.start = 0
		}
		if before, known := r.events[id]; known && before != e {
			return http.StatusOK, fmt.Errorf("%s is about %+v and %+v", id, before, e)
		}
		r.events[id] = e
	}
	for _, b := range m.Data.Records {
		before, known := r.bills[b.ID]
		if known && before != b && (!b.Recovered || before.Revision >= b.Revision) {
			return http.StatusOK, fmt.Errorf("a final bill is sent as %+v and then as %+v", before, b)
		}
		r.bills[b.ID] = b
	}
	if r.messages == 7 || r.messages == 40 {
		return 0, nil
	}
	return http.StatusOK, nil
}

// judge waits until all that is final and all thresholds have arrived, and compares them.
func (r *billReceiver) judge(l *billLoad, records map[string]billRecord) {
	l.t.Helper()
	missing := ""
	await.Until(l.t, "all final bills and all events arrive", func() bool {
		missing = r.misses(l, records)
		return missing == ""
	}, &missing)
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := map[reached]string{}
	for id, e := range r.events {
		if before, twice := ids[e]; twice {
			l.t.Errorf("%+v is %s and %s", e, before, id)
		}
		if ids[e] = id; !l.book.fired[e] && !l.lost[e] {
			l.t.Errorf("%+v was not reached", e)
		}
	}
	for id, b := range r.bills {
		if _, listed := records[id]; !listed {
			l.t.Errorf("%+v was sent, and is in no list", b)
		}
	}
	l.met["events"], l.met["bills"] = len(r.events), len(r.bills)
}

// misses names something that is to arrive; "": nothing.
func (r *billReceiver) misses(l *billLoad, records map[string]billRecord) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, want := range records {
		got, arrived := r.bills[id]
		switch {
		case want.State != "USAGE_STATE_FINAL" || want.Policy == "pair":
		case !arrived:
			return want.name()
		case got.Units != uint64(want.Units) || got.Credits != uint64(want.Credits) || got.Recovered != want.Recovered:
			return fmt.Sprintf("%+v, which has come as %+v", want, got)
		case want.Recovered:
			l.met["recovered"]++
		}
	}
	arrived := map[reached]bool{}
	for _, e := range r.events {
		arrived[e] = true
	}
	for e := range l.book.fired {
		if !arrived[e] {
			return fmt.Sprintf("%+v", e)
		}
	}
	return ""
}
