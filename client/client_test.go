package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard/slot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const shards = 8

// fakeNode is a node that records its requests.
type fakeNode struct {
	stintv1connect.UnimplementedLimitServiceHandler
	stintv1connect.UnimplementedClusterServiceHandler
	stintv1connect.UnimplementedPolicyServiceHandler
	stintv1connect.UnimplementedObserveServiceHandler
	url    string
	status atomic.Pointer[stintv1.StatusResponse]
	answer func(*stintv1.CheckRequest) *stintv1.Result // nil: allowed
	settle func(*stintv1.SettleRequest) (*connect.Response[stintv1.SettleResponse], error)
	hold   chan struct{} // if not nil, an answer waits for it
	begun  chan struct{} // if not nil, gets a value for each call

	mu    sync.Mutex
	calls []int    // number of checks in each call
	keys  []string // keys of the checks
	named []string // namespaces of the requests

	changes []string // namespaces and ids of changes by hand
}

func (f *fakeNode) Status(
	context.Context, *connect.Request[stintv1.StatusRequest],
) (*connect.Response[stintv1.StatusResponse], error) {
	return connect.NewResponse(f.status.Load()), nil
}

func (f *fakeNode) CheckBatch(
	_ context.Context, r *connect.Request[stintv1.CheckBatchRequest],
) (*connect.Response[stintv1.CheckBatchResponse], error) {
	f.mu.Lock()
	f.calls = append(f.calls, len(r.Msg.Checks))
	for _, c := range r.Msg.Checks {
		f.keys = append(f.keys, c.Entries[0].Key)
		f.named = append(f.named, c.Namespace)
	}
	f.mu.Unlock()
	if f.begun != nil {
		f.begun <- struct{}{}
	}
	if f.hold != nil {
		<-f.hold
	}
	response := &stintv1.CheckBatchResponse{}
	for _, c := range r.Msg.Checks {
		result := &stintv1.Result{Result: &stintv1.Result_Decision{Decision: &stintv1.Decision{Allowed: true,
			Reason: c.Entries[0].Key}}}
		if f.answer != nil {
			result = f.answer(c)
		}
		response.Results = append(response.Results, result)
	}
	return connect.NewResponse(response), nil
}

func (f *fakeNode) Reserve(
	_ context.Context, r *connect.Request[stintv1.ReserveRequest],
) (*connect.Response[stintv1.ReserveResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.named = append(f.named, r.Msg.Check.Namespace)
	return connect.NewResponse(&stintv1.ReserveResponse{Decision: &stintv1.Decision{Allowed: true}}), nil
}

func (f *fakeNode) Get(
	_ context.Context, r *connect.Request[stintv1.GetRequest],
) (*connect.Response[stintv1.GetResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.named = append(f.named, r.Msg.Namespace)
	return connect.NewResponse(&stintv1.GetResponse{}), nil
}

func (f *fakeNode) Settle(
	_ context.Context, r *connect.Request[stintv1.SettleRequest],
) (*connect.Response[stintv1.SettleResponse], error) {
	return f.settle(r.Msg)
}

// change records a change by hand; the first copy of each is lost on its way back.
func (f *fakeNode) change(namespace, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = append(f.changes, namespace+"/"+id)
	if len(f.changes) == 1 {
		return connect.NewError(connect.CodeAborted, errors.New("the owner was lost")) // no detail: maybe applied
	}
	return nil
}

func (f *fakeNode) Adjust(
	_ context.Context, r *connect.Request[stintv1.AdjustRequest],
) (*connect.Response[stintv1.AdjustResponse], error) {
	return connect.NewResponse(&stintv1.AdjustResponse{}), f.change(r.Msg.Namespace, r.Msg.IdempotencyId)
}

func (f *fakeNode) PutOverride(
	_ context.Context, r *connect.Request[stintv1.PutOverrideRequest],
) (*connect.Response[stintv1.PutOverrideResponse], error) {
	return connect.NewResponse(&stintv1.PutOverrideResponse{}), f.change(r.Msg.Namespace, r.Msg.IdempotencyId)
}

func (f *fakeNode) DeleteOverride(
	_ context.Context, r *connect.Request[stintv1.DeleteOverrideRequest],
) (*connect.Response[stintv1.DeleteOverrideResponse], error) {
	return connect.NewResponse(&stintv1.DeleteOverrideResponse{}), f.change(r.Msg.Namespace, r.Msg.IdempotencyId)
}

func (f *fakeNode) CorrectUsage(
	_ context.Context, r *connect.Request[stintv1.CorrectUsageRequest],
) (*connect.Response[stintv1.CorrectUsageResponse], error) {
	return connect.NewResponse(&stintv1.CorrectUsageResponse{Record: &stintv1.UsageRecord{Corrections: r.Msg.Units}}),
		f.change(r.Msg.Namespace, r.Msg.IdempotencyId)
}

func (f *fakeNode) Forget(
	_ context.Context, r *connect.Request[stintv1.ForgetRequest],
) (*connect.Response[stintv1.ForgetResponse], error) {
	return connect.NewResponse(&stintv1.ForgetResponse{Counters: 1}), f.change(r.Msg.Namespace, r.Msg.Key)
}

func (f *fakeNode) ListUsage(
	_ context.Context, r *connect.Request[stintv1.ListUsageRequest],
) (*connect.Response[stintv1.ListUsageResponse], error) {
	return connect.NewResponse(&stintv1.ListUsageResponse{NextPageToken: "next"}), f.change(r.Msg.Namespace, r.Msg.Key)
}

func (f *fakeNode) asked() (calls []int, keys []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(calls, f.calls...), append(keys, f.keys...)
}

func startNode(t *testing.T) *fakeNode { return startNodeWith(t, nil) }

// startNodeWith starts a node that speaks TLS; nil: plaintext.
func startNodeWith(t *testing.T, secure *tls.Config) *fakeNode {
	f := &fakeNode{}
	mux := http.NewServeMux()
	mux.Handle(stintv1connect.NewLimitServiceHandler(f))
	mux.Handle(stintv1connect.NewClusterServiceHandler(f))
	mux.Handle(stintv1connect.NewPolicyServiceHandler(f))
	mux.Handle(stintv1connect.NewObserveServiceHandler(f))
	server := httptest.NewUnstartedServer(mux)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server.Config.Protocols = &protocols
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail
	if secure != nil {
		protocols.SetHTTP2(true)
		server.TLS, server.EnableHTTP2 = secure, true
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// own gives the shards to the nodes in turn.
func own(nodes ...*fakeNode) {
	status := &stintv1.StatusResponse{}
	for i, n := range nodes {
		status.Nodes = append(status.Nodes, &stintv1.Node{Id: fmt.Sprint(i),
			ApiAddr: n.url[strings.Index(n.url, "://")+3:]})
	}
	for id := range shards {
		one := &stintv1.Shard{Id: uint32(id), Owner: fmt.Sprint(id % len(nodes))}
		for _, r := range slot.Even(shards).Ranges(uint32(id)) {
			one.Slots = append(one.Slots, &stintv1.SlotRange{First: uint32(r.First), Last: uint32(r.Last)})
		}
		status.Shards = append(status.Shards, one)
	}
	status.Shards = append(status.Shards, &stintv1.Shard{Id: 1<<32 - 1, Owner: "0"})
	for _, n := range nodes {
		n.status.Store(status)
	}
}

func start(t *testing.T, addresses ...string) *client.Client {
	c, err := client.New(client.Config{Addresses: addresses})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// knows waits until the client has learned the owners, which shows when it sends a key of the second node there.
func knows(t *testing.T, c *client.Client, second *fakeNode) {
	t.Helper()
	i := 0
	await.Until(t, "the client knows the owners", func() bool { // it learns in the background and reports no end of it
		for i++; slot.Even(shards).Of("default", fmt.Sprintf("probe:%d", i))%2 == 0; i++ {
		}
		if _, err := c.Check(t.Context(), client.Entry("p", fmt.Sprintf("probe:%d", i))); err != nil {
			t.Fatal(err)
		}
		calls, _ := second.asked()
		return len(calls) > 0
	})
}

func TestAChecksGoesStraightToItsOwner(t *testing.T) {
	a, b := startNode(t), startNode(t)
	own(a, b)
	c := start(t, a.url)
	knows(t, c, b)
	for i := range 50 {
		key := fmt.Sprintf("user:%d", i)
		d, err := c.Check(t.Context(), client.Entry("p", key))
		if err != nil || d.Reason != key {
			t.Fatalf("%s: %v, %v", key, d, err)
		}
	}
	for i, n := range []*fakeNode{a, b} {
		_, keys := n.asked()
		for _, key := range keys {
			if !strings.HasPrefix(key, "probe:") && slot.Even(shards).Of("default", key)%2 != uint32(i) {
				t.Errorf("node %d was asked for %s, which it does not own", i, key)
			}
		}
	}
}

// awaited is a context that records when a goroutine waits for its end. If it has a deadline, the client does so first
// when the check is in its queue.
type awaited struct {
	context.Context
	by *atomic.Int64
}

// Done implements context.Context.
func (a awaited) Done() <-chan struct{} {
	a.by.Add(1)
	return a.Context.Done()
}

func TestWhatIsAskedAtTheSameTimeTravelsTogether(t *testing.T) {
	a := startNode(t)
	own(a)
	a.hold, a.begun = make(chan struct{}), make(chan struct{}, 100)
	c := start(t, a.url)
	var group sync.WaitGroup
	var queued atomic.Int64
	bounded, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	check := func(i int) {
		group.Go(func() {
			key := fmt.Sprintf("user:%d", i)
			if d, err := c.Check(awaited{bounded, &queued}, client.Entry("p", key)); err != nil || d.Reason != key {
				t.Errorf("%s: %v, %v", key, d, err)
			}
		})
	}
	check(0)
	<-a.begun
	check(1)
	<-a.begun // two calls are under way, so the next checks wait
	for i := range 500 {
		check(i + 2)
	}
	await.Until(t, "all checks are queued", func() bool { return queued.Load() == 502 })
	close(a.hold)
	group.Wait()
	calls, keys := a.asked()
	if len(keys) != 502 || len(calls) != 3 {
		t.Errorf("%d checks in %d calls", len(keys), len(calls))
	}
}

func TestWhatWasCertainlyNotCountedIsAskedAgain(t *testing.T) {
	a := startNode(t)
	own(a)
	var asked atomic.Int32
	a.answer = func(*stintv1.CheckRequest) *stintv1.Result {
		if asked.Add(1) < 3 {
			return &stintv1.Result{Result: &stintv1.Result_Failure{Failure: &stintv1.Failure{Code: "unavailable",
				Message: "no owner"}}}
		}
		return &stintv1.Result{Result: &stintv1.Result_Decision{Decision: &stintv1.Decision{}}}
	}
	d, err := start(t, a.url).Check(t.Context(), client.Entry("p", "k"))
	if err != nil || d.Allowed {
		t.Fatalf("a denial came as %v, %v", d, err)
	}
	if asked.Load() != 3 {
		t.Errorf("asked %d times", asked.Load())
	}
}

func TestWhatMayHaveBeenCountedIsAskedAgainOnlyWithAnID(t *testing.T) {
	a := startNode(t)
	own(a)
	var asked atomic.Int32
	a.answer = func(*stintv1.CheckRequest) *stintv1.Result {
		if asked.Add(1)%2 == 1 {
			return &stintv1.Result{Result: &stintv1.Result_Failure{
				Failure: &stintv1.Failure{Code: "aborted", MaybeApplied: true}}}
		}
		return &stintv1.Result{Result: &stintv1.Result_Decision{Decision: &stintv1.Decision{Allowed: true}}}
	}
	c := start(t, a.url)
	_, err := c.Check(t.Context(), client.Entry("p", "k"))
	var failure *client.Error
	if !errors.As(err, &failure) || !failure.MaybeApplied || asked.Load() != 1 {
		t.Fatalf("without an id: %v after %d calls", err, asked.Load())
	}
	asked.Store(0)
	r := client.Entry("p", "k")
	r.IdempotencyId = "payment-7"
	if d, err := c.Check(t.Context(), r); err != nil || !d.Allowed || asked.Load() != 2 {
		t.Errorf("with an id: %v, %v after %d calls", d, err, asked.Load())
	}
}

// A later answer does not undo what an earlier attempt did.
func TestMaybeAppliedIsAboutAllAttempts(t *testing.T) {
	a := startNode(t)
	own(a)
	var asked atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a.answer = func(*stintv1.CheckRequest) *stintv1.Result {
		failure := &stintv1.Failure{Code: "unavailable", Message: "no owner"}
		switch asked.Add(1) {
		case 1:
			failure = &stintv1.Failure{Code: "aborted", MaybeApplied: true}
		case 3:
			cancel()
		}
		return &stintv1.Result{Result: &stintv1.Result_Failure{Failure: failure}}
	}
	r := client.Entry("p", "k")
	r.IdempotencyId = "payment-7"
	_, err := start(t, a.url).Check(ctx, r)
	var failure *client.Error
	if !errors.As(err, &failure) || !failure.MaybeApplied || failure.Code != "aborted" {
		t.Errorf("after an attempt that may have been counted: %v", err)
	}
	if asked.Load() < 2 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// A settlement finds a node that lives, and may be sent twice; an extension without an id may not.
func TestASettlementIsSentUntilItIsAnswered(t *testing.T) {
	a := startNode(t)
	own(a)
	var asked atomic.Int32
	a.settle = func(*stintv1.SettleRequest) (*connect.Response[stintv1.SettleResponse], error) {
		if asked.Add(1) == 1 {
			// no detail: maybe applied
			return nil, connect.NewError(connect.CodeAborted, errors.New("the owner was lost"))
		}
		return connect.NewResponse(&stintv1.SettleResponse{Decision: &stintv1.Decision{Allowed: true}}), nil
	}
	c := start(t, "http://127.0.0.1:1", a.url)
	commit := &stintv1.SettleRequest{Action: &stintv1.SettleRequest_Commit{Commit: &stintv1.Commit{}}}
	if d, err := c.Settle(t.Context(), commit); err != nil || !d.Allowed || asked.Load() != 2 {
		t.Errorf("a commit: %v, %v after %d calls", d, err, asked.Load())
	}
	asked.Store(0)
	extend := &stintv1.SettleRequest{Action: &stintv1.SettleRequest_Extend{Extend: &stintv1.Extend{}}}
	_, err := c.Settle(t.Context(), extend)
	var failure *client.Error
	if !errors.As(err, &failure) || !failure.MaybeApplied || asked.Load() != 1 {
		t.Errorf("an extension: %v after %d calls", err, asked.Load())
	}
}

// The fate of a first copy is unknown, so the second one has its id.
func TestAChangeIsSentUntilItIsAnswered(t *testing.T) {
	a := startNode(t)
	own(a)
	c, err := client.New(client.Config{Addresses: []string{a.url}, Namespace: "tenant"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for name, change := range map[string]func() error{
		"Adjust": func() error {
			_, err := c.Adjust(t.Context(), &stintv1.AdjustRequest{Policy: "p", Key: "k",
				Op: &stintv1.AdjustRequest_AddUsed{AddUsed: 1}})
			return err
		},
		"CorrectUsage": func() error {
			record, err := c.CorrectUsage(t.Context(),
				&stintv1.CorrectUsageRequest{Policy: "p", Key: "k", Units: -5, Note: "n"})
			if err == nil && record.Corrections != -5 {
				err = fmt.Errorf("the bill is %v", record)
			}
			return err
		},
		"PutOverride": func() error {
			return c.PutOverride(t.Context(), &stintv1.PutOverrideRequest{Policy: "p", Key: "k", Tier: "gold"})
		},
		"DeleteOverride": func() error {
			_, err := c.DeleteOverride(t.Context(), &stintv1.DeleteOverrideRequest{Policy: "p", Key: "k"})
			return err
		},
		"Forget": func() error {
			answer, err := c.Forget(t.Context(), &stintv1.ForgetRequest{Key: "k"})
			if err == nil && answer.Counters != 1 {
				err = fmt.Errorf("forgotten is %v", answer)
			}
			return err
		},
		"ListUsage": func() error {
			page, err := c.ListUsage(t.Context(), &stintv1.ListUsageRequest{Key: "k"})
			if err == nil && page.NextPageToken != "next" {
				err = fmt.Errorf("the page is %v", page)
			}
			return err
		},
	} {
		a.changes = nil
		if err := change(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(a.changes) != 2 || a.changes[0] != a.changes[1] || a.changes[0] == "tenant/" {
			t.Errorf("%s was sent as %v, want the same twice, with namespace and id", name, a.changes)
		}
	}
}

func TestAnAddressThatCannotBeReachedIsNoOwner(t *testing.T) {
	a, b := startNode(t), startNode(t)
	own(a, b)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	b.url = "http://" + gone.Addr().String()
	own(a, b)
	c := start(t, b.url, a.url)
	for i := range 50 {
		if _, err := c.Check(t.Context(), client.Entry("p", fmt.Sprintf("user:%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, keys := a.asked(); len(keys) != 50 {
		t.Errorf("the node that lives was asked for %d keys", len(keys))
	}
}

func TestOneAddressThatCanBeReachedIsEnough(t *testing.T) {
	a := startNode(t)
	a.status.Store(&stintv1.StatusResponse{}) // the owners are unknown
	c := start(t, "http://127.0.0.1:1", a.url, "http://127.0.0.1:2")
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	var callers sync.WaitGroup
	for range 8 { // they shun one address and then the other
		callers.Go(func() {
			for range 20 {
				if _, err := c.Check(ctx, client.Entry("p", "k")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
}

func TestEveryRequestThatNamesNoNamespaceGetsTheClients(t *testing.T) {
	a := startNode(t)
	own(a)
	c, err := client.New(client.Config{Addresses: []string{a.url}, Namespace: "tenant"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	entries := client.Entry("p", "k").Entries
	own := &stintv1.CheckRequest{Namespace: "own", Entries: entries}
	for _, ask := range []func() error{
		func() error { _, err := c.Check(t.Context(), client.Entry("p", "k")); return err },
		func() error {
			_, err := c.Reserve(t.Context(), &stintv1.ReserveRequest{Check: client.Entry("p", "k")})
			return err
		},
		func() error { _, err := c.Get(t.Context(), &stintv1.GetRequest{Entries: entries}); return err },
		func() error { _, err := c.Check(t.Context(), own); return err },
		func() error { _, err := c.Reserve(t.Context(), &stintv1.ReserveRequest{Check: own}); return err },
	} {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if want := []string{"tenant", "tenant", "tenant", "own", "own"}; !slices.Equal(a.named, want) {
		t.Errorf("namespaces %v, must be %v", a.named, want)
	}
}

func TestACheckEndsWithItsContext(t *testing.T) {
	a := startNode(t)
	own(a)
	a.hold, a.begun = make(chan struct{}), make(chan struct{}, 1)
	c := start(t, a.url)
	ctx, cancel := context.WithCancel(t.Context())
	var ending sync.WaitGroup
	ending.Go(func() { <-a.begun; cancel() })
	_, err := c.Check(ctx, client.Entry("p", "k"))
	ending.Wait()
	var failure *client.Error
	if !errors.As(err, &failure) || !failure.MaybeApplied {
		t.Errorf("an answer that did not come in time: %v", err)
	}
	close(a.hold)
}

// sentFirst is a context that shows its end only once a check has reached its node.
type sentFirst struct {
	context.Context
	begun <-chan struct{}
}

func (c sentFirst) Done() <-chan struct{} {
	<-c.begun
	return c.Context.Done()
}

func TestACheckAfterItsContextIsNotSent(t *testing.T) {
	a := startNode(t)
	own(a)
	a.begun = make(chan struct{}, 1)
	c := start(t, a.url)
	over, cancel := context.WithTimeout(t.Context(), await.Patience)
	cancel()
	_, err := c.Check(sentFirst{over, a.begun}, client.Entry("p", "k"))
	var failure *client.Error
	if !errors.As(err, &failure) || failure.Code != connect.CodeCanceled.String() || failure.MaybeApplied {
		t.Errorf("a check by a context that is over: %v", err)
	}
	if calls, _ := a.asked(); len(calls) > 0 {
		t.Errorf("%d calls were sent", len(calls))
	}
}

func TestAClosedClientRefuses(t *testing.T) {
	a := startNode(t)
	own(a)
	c := start(t, a.url)
	c.Close()
	if _, err := c.Check(t.Context(), client.Entry("p", "k")); err == nil {
		t.Error("a closed client answered")
	}
}

func TestBadAddressesAreNamed(t *testing.T) {
	for _, address := range []string{"", "127.0.0.1:7400", "ftp://x", "http://"} {
		if _, err := client.New(client.Config{Addresses: []string{address}}); err == nil ||
			!strings.Contains(err.Error(), address) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestNothingOfTheServerComesAlong(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, heavy := range []string{"hashicorp/", "cockroachdb/", "bbolt", "prometheus", "stint/shard\n",
		"stint/policy\n"} {
		if strings.Contains(string(out), heavy) {
			t.Errorf("the client imports %s", heavy)
		}
	}
}
