package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/holder"
)

// lessor is a node that admits everything and grants what it is asked for, and a client in its process with clocks that
// the test sets.
type lessor struct {
	stintv1connect.UnimplementedLimitServiceHandler
	stintv1connect.UnimplementedClusterServiceHandler
	stintv1connect.UnimplementedPolicyServiceHandler
	testing.TB
	c *Client
	http.Handler

	mu       sync.Mutex
	wallOff  time.Duration
	late     func() // holds up the answers to a Lease; may be nil
	most     uint64 // of a lease
	busy     int    // so many requests for leases are refused as unavailable
	loses    bool   // the answers to grants
	refuses  error  // of leases
	checks   []*stintv1.CheckRequest
	heard    []string // returns and changes, in their order
	asked    []*stintv1.LeaseRequest
	sentFrom time.Time // the newest lease was first asked for
}

const spendWithin = 1496 * time.Millisecond

func newLessor(t testing.TB) *lessor {
	mux := http.NewServeMux()
	l := &lessor{TB: t, Handler: mux, most: 100}
	mux.Handle(stintv1connect.NewLimitServiceHandler(l))
	mux.Handle(stintv1connect.NewClusterServiceHandler(l))
	mux.Handle(stintv1connect.NewPolicyServiceHandler(l))
	return l
}

// Do implements connect.HTTPClient.
func (l *lessor) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w.Result(), nil
}

func (l *lessor) CheckBatch(
	_ context.Context, r *connect.Request[stintv1.CheckBatchRequest],
) (*connect.Response[stintv1.CheckBatchResponse], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	response := &stintv1.CheckBatchResponse{}
	for _, check := range r.Msg.Checks {
		l.checks = append(l.checks, check)
		response.Results = append(response.Results,
			&stintv1.Result{Result: &stintv1.Result_Decision{Decision: &stintv1.Decision{Allowed: true}}})
	}
	return connect.NewResponse(response), nil
}

func (l *lessor) Lease(
	_ context.Context, r *connect.Request[stintv1.LeaseRequest],
) (*connect.Response[stintv1.LeaseResponse], error) {
	m := r.Msg
	l.mu.Lock()
	late := l.late
	if m.Number != 0 && (len(l.asked) == 0 || l.asked[len(l.asked)-1].Number != m.Number) {
		l.sentFrom = time.Now()
	}
	l.asked = append(l.asked, m)
	l.mu.Unlock()
	if late != nil {
		late()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuses != nil {
		return nil, l.refuses
	}
	if m.Number != 0 && l.busy > 0 {
		l.busy--
		return nil, certainly(connect.CodeUnavailable)
	}
	if m.Returned != 0 {
		l.heard = append(l.heard, fmt.Sprintf("%d spent %d", m.Returned, m.Spent))
	}
	if m.Number == 0 {
		return connect.NewResponse(&stintv1.LeaseResponse{}), nil
	}
	if l.loses {
		return nil, connect.NewError(connect.CodeAborted, errors.New("the owner was lost")) // no detail: maybe granted
	}
	return connect.NewResponse(&stintv1.LeaseResponse{Units: min(m.Units, l.most),
		SpendWithin: durationpb.New(spendWithin),
		Decision:    &stintv1.Decision{Allowed: true, Leased: true, Reason: m.Key}}), nil
}

// certainly is an error by which nothing was counted.
func certainly(code connect.Code) error {
	e := connect.NewError(code, errors.New("refused"))
	detail, err := connect.NewErrorDetail(&stintv1.Failure{Code: code.String(), Message: "refused"})
	if err != nil {
		panic(err)
	}
	e.AddDetail(detail)
	return e
}

// set sets what the keepers of leases, and the calls that they make, read too.
func set[T any](l *lessor, field *T, to T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*field = to
}

func (l *lessor) hears(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, what)
}

func (l *lessor) Adjust(
	context.Context, *connect.Request[stintv1.AdjustRequest],
) (*connect.Response[stintv1.AdjustResponse], error) {
	l.hears("adjust")
	return connect.NewResponse(&stintv1.AdjustResponse{}), nil
}

func (l *lessor) Forget(
	context.Context, *connect.Request[stintv1.ForgetRequest],
) (*connect.Response[stintv1.ForgetResponse], error) {
	l.hears("forget")
	return connect.NewResponse(&stintv1.ForgetResponse{}), nil
}

func (l *lessor) PutOverride(
	context.Context, *connect.Request[stintv1.PutOverrideRequest],
) (*connect.Response[stintv1.PutOverrideResponse], error) {
	l.hears("put")
	return connect.NewResponse(&stintv1.PutOverrideResponse{}), nil
}

func (l *lessor) DeleteOverride(
	context.Context, *connect.Request[stintv1.DeleteOverrideRequest],
) (*connect.Response[stintv1.DeleteOverrideResponse], error) {
	l.hears("delete")
	return connect.NewResponse(&stintv1.DeleteOverrideResponse{}), nil
}

// withLessor runs a test in a bubble, and wants each lease to be returned when the client is closed.
func withLessor(t *testing.T, test func(l *lessor)) {
	synctest.Test(t, func(t *testing.T) {
		l := newLessor(t)
		c, err := New(Config{Addresses: []string{"http://node"}, Namespace: "shop", HTTP: l, Leases: true})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		c.leases.Close()
		c.leases = newLeases(c, func() holder.Time {
			l.mu.Lock()
			defer l.mu.Unlock()
			return holder.Time{Boot: time.Since(began),
				Wall: time.Duration(time.Now().Add(l.wallOff).UnixNano())}
		})
		l.c = c
		test(l)
		closing := time.Now()
		c.Close()
		if took := time.Since(closing); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		owed := map[uint64]bool{}
		for _, m := range l.asked {
			delete(owed, m.Returned)
			if m.Number != 0 {
				owed[m.Number] = true
			}
		}
		if len(owed) > 0 && l.refuses == nil || c.leases.Held() != 0 {
			t.Errorf("%v were not returned, %d are held", owed, c.leases.Held())
		}
	})
}

// sends makes a check, and wants it to be sent to the cluster, or to be answered by a lease.
func (l *lessor) sends(what string, sent bool, r *stintv1.CheckRequest) *stintv1.Decision {
	l.Helper()
	before := len(l.checks)
	d, err := l.c.Check(l.Context(), r)
	if err != nil {
		l.Fatal(err)
	}
	if asked := len(l.checks) > before; asked != sent || d.Leased == sent || !d.Allowed {
		l.Errorf("%s: sent %v, want %v: %v", what, asked, sent, d)
	}
	return d
}

// moor gets a lease of a key.
func (l *lessor) moor(key string) {
	l.Helper()
	for range 2 {
		l.sends("before there is a lease", true, Entry("p", key))
		time.Sleep(time.Millisecond)
	}
	synctest.Wait()
}

func TestALeaseAnswersInMemory(t *testing.T) {
	withLessor(t, func(l *lessor) {
		l.moor("k")
		if d := l.sends("from the lease", false, Entry("p", "k")); d.Reason != "k" {
			t.Errorf("it says %v", d)
		}
		named := Entry("p", "k")
		named.Namespace = "shop"
		l.sends("in the client's namespace, by name", false, named)
		if m := l.asked[0]; m.Namespace != "shop" || m.Policy != "p" || m.Key != "k" || len(m.Holder) < 16 ||
			m.Number != 1 || m.Units < 4 {
			t.Errorf("asked for %v", m)
		}
		results := l.c.CheckBatch(l.Context(), []*stintv1.CheckRequest{Entry("p", "k"), Entry("p", "l")})
		if !results[0].GetDecision().GetLeased() || results[1].GetDecision().GetLeased() {
			t.Errorf("a batch is answered %v", results)
		}
		time.Sleep(201 * time.Millisecond)
		if synctest.Wait(); l.c.leases.Held() != 0 || l.heard[0] != "1 spent 3" {
			t.Errorf("after 200 ms without a check the cluster has heard %v", l.heard)
		}
	})
}

func TestOnlyAPlainCheckIsAnsweredInMemory(t *testing.T) {
	withLessor(t, func(l *lessor) {
		l.moor("k")
		for what, change := range map[string]func(r *stintv1.CheckRequest){
			"another namespace": func(r *stintv1.CheckRequest) { r.Namespace = "office" },
			"another key":       func(r *stintv1.CheckRequest) { r.Entries[0].Key = "l" },
			"another policy":    func(r *stintv1.CheckRequest) { r.Entries[0].Policy = "other" },
			"another tier":      func(r *stintv1.CheckRequest) { r.Entries[0].Tier = "gold" },
			"an id":             func(r *stintv1.CheckRequest) { r.IdempotencyId = "id" },
			"a count":           func(r *stintv1.CheckRequest) { r.Mode = stintv1.Mode_MODE_COUNT },
			"a look":            func(r *stintv1.CheckRequest) { r.Mode = stintv1.Mode_MODE_PEEK },
			"as far as it goes": func(r *stintv1.CheckRequest) { r.Mode = stintv1.Mode_MODE_PARTIAL },
			"explained":         func(r *stintv1.CheckRequest) { r.Explain = true },
			"no cost":           func(r *stintv1.CheckRequest) { r.Entries[0].Cost = proto.Uint64(0) },
			"more than is left": func(r *stintv1.CheckRequest) { r.Entries[0].Cost = proto.Uint64(101) },
			"limits of its own": func(r *stintv1.CheckRequest) { r.Entries[0].Limits = []*stintv1.Limit{{}} },
			"two entries": func(r *stintv1.CheckRequest) {
				r.Entries = append(r.Entries, &stintv1.Entry{Policy: "q", Key: "k"})
			},
		} {
			r := Entry("p", "k")
			change(r)
			l.sends(what, true, r)
		}
		over, cancel := context.WithCancel(l.Context())
		cancel()
		if _, err := l.c.Check(over, Entry("p", "k")); err == nil {
			t.Error("a check whose context is over was answered")
		}
		r := Entry("p", "k")
		r.Mode = stintv1.Mode_MODE_ENFORCE
		l.sends("the same", false, r)
	})
}

// A lease counts from before it was first asked for: the first request was refused, and the second took its time.
func TestALeaseCountsFromBeforeItsFirstRequest(t *testing.T) {
	withLessor(t, func(l *lessor) {
		l.late, l.busy = func() { time.Sleep(70 * time.Millisecond) }, 1
		l.moor("k")
		time.Sleep(70 * time.Millisecond)
		l.sends("while it is asked for", true, Entry("p", "k"))
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		began := time.Since(l.sentFrom)
		if l.c.leases.Held() != 1 || began < 150*time.Millisecond || len(l.asked) != 2 || l.asked[1].Number != 1 {
			t.Fatalf("%d held, %v after it was first asked for: %v", l.c.leases.Held(), began, l.asked)
		}
		set(l, &l.wallOff, spendWithin-began-time.Microsecond)
		l.sends("just before the end", false, Entry("p", "k"))
		set(l, &l.wallOff, spendWithin-began)
		l.sends("at the end", true, Entry("p", "k"))
		set(l, &l.late, nil)
	})
}

// A request that may have been granted is not sent again: its units are returned.
func TestAGrantThatIsUnknownIsNotAskedForAgain(t *testing.T) {
	withLessor(t, func(l *lessor) {
		l.loses = true
		l.moor("k")
		if n := l.c.leases.Held(); n != 0 || len(l.asked) != 2 || len(l.heard) != 1 || l.heard[0] != "1 spent 0" {
			t.Errorf("%d held, the cluster has heard %v by %v", n, l.heard, l.asked)
		}
		l.sends("without a lease", true, Entry("p", "k"))
	})
}

// A policy without leases, or a token without the operation, is not asked again and again.
func TestARefusalIsKeptInMind(t *testing.T) {
	for _, code := range []connect.Code{connect.CodeInvalidArgument, connect.CodePermissionDenied,
		connect.CodeUnimplemented} {
		withLessor(t, func(l *lessor) {
			l.refuses = certainly(code)
			ask := func() {
				for range 550 {
					l.sends("without leases", true, Entry("p", "k"))
					time.Sleep(100 * time.Millisecond)
				}
				for range 10 {
					l.sends("without leases", true, Entry("p", "k"))
					time.Sleep(time.Millisecond)
				}
				synctest.Wait()
			}
			if ask(); len(l.asked) != 2 { // it asks for one, and returns what may have been granted
				t.Errorf("%v: asked %d times in a minute", code, len(l.asked))
			}
			if ask(); len(l.asked) != 4 {
				t.Errorf("%v: asked %d times in two minutes", code, len(l.asked))
			}
		})
	}
}

// The owner hears what was spent of a key before it is changed by hand.
func TestAChangeByHandEndsTheLease(t *testing.T) {
	for what, change := range map[string]func(l *lessor) error{
		"adjust": func(l *lessor) error {
			_, err := l.c.Adjust(l.Context(), &stintv1.AdjustRequest{Policy: "p", Key: "k"})
			return err
		},
		"put": func(l *lessor) error {
			return l.c.PutOverride(l.Context(), &stintv1.PutOverrideRequest{Policy: "p", Key: "k"})
		},
		"delete": func(l *lessor) error {
			_, err := l.c.DeleteOverride(l.Context(), &stintv1.DeleteOverrideRequest{Policy: "p", Key: "k"})
			return err
		},
		"forget": func(l *lessor) error {
			_, err := l.c.Forget(l.Context(), &stintv1.ForgetRequest{Key: "k"})
			return err
		},
	} {
		withLessor(t, func(l *lessor) {
			l.moor("k")
			l.moor("l")
			l.sends("one is spent", false, Entry("p", "k"))
			if err := change(l); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(l.heard, ", "); !strings.HasPrefix(got+", ", "1 spent 1, "+what+", ") {
				t.Errorf("the cluster has heard %s", got)
			}
			l.sends("after it", true, Entry("p", "k"))
			l.sends("another key", false, Entry("p", "l"))
		})
	}
}

// While the cluster cannot be reached, Close does not wait for longer than 2 s.
func TestACloseGivesUp(t *testing.T) {
	withLessor(t, func(l *lessor) {
		l.moor("k")
		l.refuses = certainly(connect.CodeUnavailable)
		began := time.Now()
		l.c.Close()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
