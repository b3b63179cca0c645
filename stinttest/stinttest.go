package stinttest

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	stinttestv1 "github.com/stint-io/stint/api/gen/stint/test/v1"
	"github.com/stint-io/stint/api/gen/stint/test/v1/stinttestv1connect"
	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/node"
)

// Server is a node that runs as long as its test.
type Server struct {
	// URL is the base URL of the API, on 127.0.0.1.
	URL string

	t      testing.TB
	client *client.Client
	clock  stinttestv1connect.TestClockClient
}

// patience bounds waits for events that take moments, on a machine that is busy with other work.
const patience = 2 * time.Minute

// Start starts a node with the policies of a policies file, and ends it with the test. It fails the test if the
// policies are not valid.
func Start(t testing.TB, policies string) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "stinttest-") // t.TempDir may be too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "policies.yaml")
	if err := os.WriteFile(file, []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n, err := node.Start(ctx, node.Config{DataDir: filepath.Join(dir, "data"),
		ClientPorts: node.ClientPorts{APIAddr: "127.0.0.1:0"}, PoliciesFile: file, Dev: true, TestClock: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := n.AwaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	s := &Server{URL: "http://" + n.APIAddr(), t: t}
	if s.client, err = client.New(client.Config{Addresses: []string{s.URL}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	s.clock = stinttestv1connect.NewTestClockClient(http.DefaultClient, s.URL)
	return s
}

// Client returns the Go client of the server. It is closed with the test.
func (s *Server) Client() *client.Client { return s.client }

// Now returns the server's time.
func (s *Server) Now() time.Time { return s.Advance(0) }

// Advance moves the server's clock forward, by ten years at most, and returns its time. Every request that is sent
// after it is decided at that time or later. It fails the test if the clock cannot be moved.
func (s *Server) Advance(by time.Duration) time.Time {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := s.clock.Advance(ctx, connect.NewRequest(&stinttestv1.AdvanceRequest{By: durationpb.New(by)}))
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.Msg.Now.AsTime()
}
