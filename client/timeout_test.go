package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
)

// doer sends requests as a test wants.
type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

// A call without a deadline in its context ends by itself: a cluster that is down, or silent, holds no caller for ever.
func TestACallHasABoundOfItsOwn(t *testing.T) {
	downs := map[string]doer{
		"down": func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		},
		"silent": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
	}
	calls := map[string]func(context.Context, *client.Client) error{
		"Attempt": func(ctx context.Context, c *client.Client) error {
			_, err := c.Attempt(ctx, client.Entry("login", "user:42"), 30*time.Second)
			return err
		},
		"Check": func(ctx context.Context, c *client.Client) error {
			_, err := c.Check(ctx, client.Entry("login", "user:42"))
			return err
		},
		"Settle": func(ctx context.Context, c *client.Client) error {
			_, err := c.Settle(ctx, &stintv1.SettleRequest{})
			return err
		},
		"Get": func(ctx context.Context, c *client.Client) error {
			_, err := c.Get(ctx, &stintv1.GetRequest{})
			return err
		},
		"Adjust": func(ctx context.Context, c *client.Client) error {
			_, err := c.Adjust(ctx, &stintv1.AdjustRequest{})
			return err
		},
		"PutOverride": func(ctx context.Context, c *client.Client) error {
			return c.PutOverride(ctx, &stintv1.PutOverrideRequest{})
		},
	}
	for state, http := range downs {
		for name, call := range calls {
			for timeout, want := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Second: time.Second} {
				synctest.Test(t, func(t *testing.T) {
					c, err := client.New(client.Config{Addresses: []string{"http://stint.test"}, HTTP: http,
						Timeout: timeout})
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					ctx, cancel := context.WithCancel(t.Context()) // no deadline
					defer cancel()
					defer time.AfterFunc(time.Hour, cancel).Stop()
					begun := time.Now()
					err = call(ctx, c)
					var failure *client.Error
					if took := time.Since(begun); took != want || !errors.As(err, &failure) ||
						(failure.Code == connect.CodeUnavailable.String()) != (state == "down") {
						t.Errorf("%s, %s, Timeout %v: %v after %v, want %v", state, name, timeout, err, took, want)
					}
				})
			}
		}
	}
}

// A caller's own deadline stands, even if it is later than the bound of the client.
func TestADeadlineOfTheCallerStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := client.New(client.Config{Addresses: []string{"http://stint.test"}, Timeout: -1}); err == nil {
			t.Error("a timeout below 0 is accepted")
		}
		refused := doer(func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		})
		c, err := client.New(client.Config{Addresses: []string{"http://stint.test"}, HTTP: refused})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, within := range []time.Duration{time.Second, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			begun := time.Now()
			if _, err := c.Check(ctx, client.Entry("login", "user:42")); err == nil || time.Since(begun) != within {
				t.Errorf("%v after %v, want %v", err, time.Since(begun), within)
			}
			cancel()
		}
	})
}
