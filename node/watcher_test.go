package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/testing/await"
)

// watchers are streams of decisions, one on each node of a cluster, that have begun to hear all of them.
func (c *trio) watchers(m *stintv1.WatchRequest) (all []*connect.ServerStreamForClient[stintv1.Event]) {
	c.t.Helper()
	for _, n := range c.nodes {
		stream, err := stintv1connect.NewObserveServiceClient(clientOf(n), "http://"+n.APIAddr()).
			Watch(c.t.Context(), connect.NewRequest(m))
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { stream.Close() })
		for begun := false; !begun; {
			if !stream.Receive() {
				c.t.Fatal(stream.Err())
			}
			begun = stream.Msg().Kind == stintv1.EventKind_EVENT_KIND_STREAM && len(stream.Msg().MissingNodes) == 0
		}
		all = append(all, stream)
	}
	return all
}

// Each node's stream has each decision of the cluster once, told by the node that was asked: also of those that other
// nodes have decided, that are repeated without a decision, and that came by the Redis protocol.
func TestEveryWayThroughAClusterIsOneEvent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t)
		for i := range c.nodes {
			c.configs[i].RedisAddr = "127.0.0.1:0"
			c.start(i)
		}
		c.ready(0, 1, 2)
		streams := c.watchers(&stintv1.WatchRequest{})
		var want []string
		check := func(i int, policy, key, outcome string) {
			t.Helper()
			answer, err := stintv1connect.NewLimitServiceClient(clientOf(c.nodes[i]),
				"http://"+c.nodes[i].APIAddr()).Check(t.Context(),
				connect.NewRequest(&stintv1.CheckRequest{Entries: []*stintv1.Entry{{Policy: policy, Key: key}}}))
			if err != nil || answer.Msg.Decision.Allowed != (outcome == "allowed") {
				t.Fatal(answer, err)
			}
			want = append(want, fmt.Sprintf("n%d connect %s %s/%s", i+1, outcome, policy, key))
		}
		for _, key := range keysOfAllShards(uint32(c.nodes[0].view.shards())) { // two of three nodes forward
			for i := range c.nodes {
				check(i, "stock", key, "allowed")
			}
		}
		check(0, "flooded", "k", "allowed")
		check(0, "flooded", "k", "denied")
		for i := range c.nodes { // the owner may repeat it too, so the first one elsewhere is repeated already
			check(i, "flooded", "k", "denied_cached")
			check(i, "flooded", "k", "denied_cached")
		}
		redis := redisClient(t, c.nodes[1].RedisAddr(), 3)
		for _, command := range []struct{ text, event string }{
			{"STINT.CHECK stock r", "allowed stock/r"}, {"STINT.CHECK flooded r", "allowed flooded/r"},
			{"STINT.CHECK flooded r", "denied flooded/r"}, {"STINT.CHECK flooded r", "denied_cached flooded/r"},
			{"CL.THROTTLE r 0 1 3600", "allowed inline/r"}, {"THROTTLE r 1 1 3600", "denied inline/r"},
			{"THROTTLE r 1 1 3600 0", ""}, {"INCR r", ""}, {"GET r", ""},
		} {
			var args []any
			for _, arg := range strings.Fields(command.text) {
				args = append(args, arg)
			}
			if err := redis.Do(t.Context(), args...).Err(); err != nil {
				t.Fatal(command.text, err)
			}
			if command.event != "" {
				want = append(want, "n2 redis "+command.event)
			}
		}
		check(2, "stock", "the last", "allowed")
		slices.Sort(want)
		for i, stream := range streams {
			var got []string
			for len(got) < len(want) && stream.Receive() {
				if e := stream.Msg(); e.Decision != nil {
					got = append(got, fmt.Sprintf("%s %s %s %s/%s",
						e.Decision.Node, e.Decision.Protocol, e.Decision.Outcome, e.Policy, e.Key))
				}
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("node %d: got  %q\nwant %q (%v)", i+1, got, want, stream.Err())
			}
		}
	})
}

// A stream names the nodes that it does not hear, and hears them again when they are back.
func TestAStreamNamesTheNodesItDoesNotHear(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newTrio(t)
		streams := c.watchers(&stintv1.WatchRequest{})
		stream := streams[0]
		for _, other := range streams[1:] {
			other.Close()
		}
		c.stop(2)
		heardOf := func(missing ...string) {
			t.Helper()
			for stream.Receive() {
				if m := stream.Msg(); m.Kind == stintv1.EventKind_EVENT_KIND_STREAM &&
					slices.Equal(m.MissingNodes, missing) {
					return
				}
			}
			t.Fatal(stream.Err())
		}
		heardOf("n3")
		c.start(2)
		heardOf()
		c.stop(0)
		for stream.Receive() {
		}
		if connect.CodeOf(stream.Err()) != connect.CodeUnavailable {
			t.Error("the stream of a node that stops ends with", stream.Err())
		}
		await.Until(t, "nobody listens on the others", func() bool {
			return !c.nodes[1].decisions.Listening() && !c.nodes[2].decisions.Listening()
		})
	})
}

// A filter that is too long for a question between nodes is widened there, and applied here.
func TestALongFilterIsAppliedHere(t *testing.T) {
	long := &decisions.Filter{Namespace: "shop", Key: strings.Repeat("<", 512),
		Kinds: []decisions.Kind{decisions.Denied}}
	if sent := sentFilter(long); sent.Key != "" || sent.Namespace != "shop" || len(sent.Kinds) != 1 {
		t.Errorf("sent as %+v", sent)
	}
	short := &decisions.Filter{Namespace: "shop", Key: "k"}
	if sentFilter(short) != short {
		t.Error("a short filter is widened")
	}
}

// The decision log of a node has its denials in full, and goes on in the same file after a restart. A log that cannot
// be written neither keeps the node from starting nor from deciding, and is counted.
func TestADecisionLogOfANode(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := testConfig(t)
		file := filepath.Join(t.TempDir(), "decisions.log")
		into := func(path string) *decisions.LogConfig {
			return &decisions.LogConfig{Out: decisions.File(decisions.FileConfig{Path: path, Bytes: 1 << 20, Files: 2})}
		}
		config.DecisionLog = into(file)
		const each = 20
		for range 2 {
			n := start(t, config)
			client := stintv1connect.NewLimitServiceClient(clientOf(n), "http://"+n.APIAddr())
			for range each {
				if _, err := client.Check(t.Context(),
					connect.NewRequest(&stintv1.CheckRequest{
						Entries: []*stintv1.Entry{{Policy: "flooded", Key: "ann"}}})); err != nil {
					t.Fatal(err)
				}
			}
			stop(t, n)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sum := uint64(0)
		for line := range strings.Lines(string(text)) {
			var e decisions.Record
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Key != "" || len(e.KeyHash) != 16 ||
				e.Policy != "flooded" {
				t.Fatalf("%v: %s", err, line)
			}
			if !e.Allowed {
				sum += e.Weight
			}
		}
		if want := uint64(2*each - 1); sum != want { // one was allowed; the quota is 1
			t.Errorf("the denials in the log weigh %d, want %d\n%s", sum, want, text)
		}
		config.DecisionLog = into(filepath.Join(file, "not", "a", "directory"))
		n := start(t, config)
		defer stop(t, n)
		client := stintv1connect.NewLimitServiceClient(clientOf(n), "http://"+n.APIAddr())
		if _, err := client.Check(t.Context(),
			connect.NewRequest(
				&stintv1.CheckRequest{Entries: []*stintv1.Entry{{Policy: "flooded", Key: "ann"}}})); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the lost line is counted", func() bool {
			return scraped(n, `stint_decision_log_dropped_total{reason="disk"}`) == "1"
		})
	})
}
