package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

// stranger is a peer port with the cluster's key and id, under a node's name.
func (c *trio) stranger(name string) *peer.Port {
	c.t.Helper()
	key, err := peer.OpenKeyFile(c.configs[0].ClusterKeyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		c.t.Fatal(err)
	}
	listener, err := c.configs[0].World.Listen("127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	port, err := peer.Listen(peer.Config{Listener: listener, Cluster: c.nodes[0].dir.cluster(), Node: name, Key: key,
		Dial:    c.configs[0].World.Dial,
		Listing: func(string) peer.Listing { return peer.Listed }, Silent: func(string) {},
		Refused: func(string) {}, Most: 8, Logger: slog.New(slog.DiscardHandler),
		Resolve: func(string) (string, bool) { return c.nodes[0].peers.port.Addr().String(), true }})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { port.Close() })
	return port
}

// A holder of the key that is not registered hears nothing of the cluster, and is not believed.
func TestAnUnlistedPeerGetsNoDocumentsAndIsNotBelieved(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		x := c.stranger("x")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		conn, err := x.DialAsk(ctx, "n1")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		report, err := peer.Ask(conn, placement.Question{})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Documents)+len(report.Replicas)+len(report.Problems)+
			len(report.KeyLines) > 0 || report.Node != "n1" || report.Written == 0 {
			t.Errorf("it hears %+v", report)
		}
		if hop, err := x.DialHop(ctx, "n1"); !errors.Is(err, peer.NotListed) {
			if err == nil {
				hop.Close()
			}
			t.Errorf("it may forward requests: %v", err)
		}
		// What it says of the cluster counts for nothing while listed nodes answer.
		n := c.nodes[0]
		await.Until(t, "another listed node answers", func() bool { return len(n.peers.reports()) > 0 })
		forged := n.view.newestTable().ApplyNodeState("n1", placement.NodeRemoved)
		n.reporter.heard(placement.Report{Node: "x", TableVersion: 1 << 40, Written: 1 << 20,
			Documents: []placement.NamedDocument{
				{Name: placement.TableDocument, Document: shard.Document{Version: 1 << 40, Body: forged.Encode()}},
			}})
		n.reporter.heard(placement.Report{Node: "x", RemovedBy: 1 << 40})
		if n.view.table.now().version == 1<<40 || len(n.fatal) > 0 {
			t.Error("it is believed")
		}
		listed, err := c.stranger("n2").DialAsk(ctx, "n1") // the name of a listed node is what a certificate must prove
		if err != nil {
			t.Fatal(err)
		}
		defer listed.Close()
		report, err = peer.Ask(listed, placement.Question{})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{placement.TableDocument, placement.SecretsDocument} {
			if !slices.ContainsFunc(report.Documents, func(d placement.NamedDocument) bool { return d.Name == name }) {
				t.Errorf("a listed one does not hear %s, but %+v", name, report)
			}
		}
	})
}

// A node that was removed and does not stop is out all the same: its standing connections end, and it gets no new ones
// but to ask, which tells it that it was removed, and nothing else.
func TestARemovedNodeIsOutThoughItDoesNotStop(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		fourth := c.mustJoin("n4")
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		stands, err := c.nodes[fourth].peers.port.DialAsk(ctx, "n1")
		if err != nil {
			t.Fatal(err)
		}
		defer stands.Close()
		if err := c.nodes[0].admin.RemoveNode(ctx, "n4"); err != nil {
			t.Fatal(err)
		}
		// nothing stops it here
		c.await("it is removed", func(s *stintv1.StatusResponse) bool { return s.Nodes[3].State == "removed" })
		await.Until(t, "the connection that stood ends", func() bool {
			_, err := peer.Ask(stands, placement.Question{})
			return err != nil
		})
		if _, err := c.nodes[fourth].peers.port.DialHop(ctx, "n1"); !errors.Is(err, peer.WasRemoved) {
			t.Errorf("it is told %v", err)
		}
		asks, err := c.nodes[fourth].peers.port.DialAsk(ctx, "n1")
		if err != nil {
			t.Fatal(err)
		}
		defer asks.Close()
		told, err := peer.Ask(asks, placement.Question{})
		if err != nil || told.RemovedBy == 0 || len(told.Documents)+len(told.Replicas)+len(told.Problems) > 0 {
			t.Errorf("it hears %+v, %v", told, err)
		}
	})
}
