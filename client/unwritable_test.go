package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/internal/testing/await"
)

// A key that is no UTF-8, which a stranger may have written, fails its own check only: the others that wait for the
// same call are sent without it.
func TestACheckThatCannotBeWrittenFailsAlone(t *testing.T) {
	a := startNode(t)
	own(a)
	a.hold, a.begun = make(chan struct{}), make(chan struct{}, 100)
	c := start(t, a.url)
	bounded, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	var group sync.WaitGroup
	var queued atomic.Int64
	check := func(key string, want error) {
		group.Go(func() {
			_, err := c.Check(awaited{bounded, &queued}, client.Entry("p", key))
			var failure *client.Error
			switch {
			case want == nil && err != nil:
				t.Errorf("%q: %v", key, err)
			case want != nil && (!errors.As(err, &failure) || failure.Code != "invalid_argument" || failure.MaybeApplied):
				t.Errorf("%q: %v", key, err)
			}
		})
	}
	for i := range 2 {
		check(fmt.Sprint(i), nil)
		<-a.begun
	}
	for i := range 4 { // they travel together, since two calls are under way
		check(fmt.Sprintf("user:%d", i), nil)
		check(fmt.Sprintf("\xff%d", i), errors.ErrUnsupported)
	}
	await.Until(t, "all checks are queued", func() bool { return queued.Load() == 10 })
	close(a.hold)
	group.Wait()
	if _, keys := a.asked(); len(keys) != 6 {
		t.Errorf("asked for %q", keys)
	}
}

// What cannot be written was certainly not sent, so there is nothing to learn by asking again.
func TestACallThatCannotBeWrittenIsNotCounted(t *testing.T) {
	c := start(t, "http://127.0.0.1:1")
	r := client.Entry("p", "\xff")
	r.IdempotencyId = "1"
	_, err := c.Reserve(t.Context(), &stintv1.ReserveRequest{Check: r})
	var failure *client.Error
	if !errors.As(err, &failure) || failure.Code != "invalid_argument" || failure.MaybeApplied {
		t.Errorf("%v", err)
	}
}
