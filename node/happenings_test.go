package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/testing/await"
)

const happeningPolicies = `policies:
  plan:
    limits:
      - {name: month, quota: 4, calendar: {unit: month}, thresholds: [50%, 3]}
  login:
    lockout: {after: 1, base: 1h, factor: 2, max: 2h, forgive_after: 24h}
    limits:
      - {name: tries, quota: 100, lifetime: {}}
`

// A threshold that fires, a block that a ladder begins and a change by hand are told once on each node's stream,
// whichever node owns the key and whichever was asked. What has fired is told of the key by each node, also out of its
// own replica.
func TestWhatHappensToKeysIsWatchedOnEveryNode(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t)
		for i := range c.nodes {
			c.configs[i].PoliciesFile = filepath.Join(t.TempDir(), "policies.yaml")
			if err := os.WriteFile(c.configs[i].PoliciesFile, []byte(happeningPolicies), 0o600); err != nil {
				t.Fatal(err)
			}
			c.start(i)
		}
		c.ready(0, 1, 2)
		streams := c.watchers(&stintv1.WatchRequest{Kinds: []stintv1.EventKind{stintv1.EventKind_EVENT_KIND_THRESHOLD,
			stintv1.EventKind_EVENT_KIND_LOCKOUT, stintv1.EventKind_EVENT_KIND_AUDIT}})
		var want []string
		keys := keysOfAllShards(uint32(c.nodes[0].view.shards()))
		for n, key := range keys {
			client := stintv1connect.NewLimitServiceClient(clientOf(c.nodes[n%3]), "http://"+c.nodes[n%3].APIAddr())
			entries := func(policy string) []*stintv1.Entry { return []*stintv1.Entry{{Policy: policy, Key: key}} }
			for range 3 {
				if _, err := client.Check(t.Context(),
					connect.NewRequest(&stintv1.CheckRequest{Entries: entries("plan")})); err != nil {
					t.Fatal(err)
				}
			}
			held, err := client.Reserve(t.Context(),
				connect.NewRequest(&stintv1.ReserveRequest{Check: &stintv1.CheckRequest{Entries: entries("login")}}))
			if err == nil {
				_, err = client.Settle(t.Context(),
					connect.NewRequest(
						&stintv1.SettleRequest{Target: &stintv1.SettleRequest_HoldId{HoldId: held.Msg.Decision.HoldId},
							Action: &stintv1.SettleRequest_Failed{Failed: &stintv1.Failed{}}}))
			}
			if err == nil {
				_, err = client.Adjust(t.Context(),
					connect.NewRequest(&stintv1.AdjustRequest{Policy: "plan", Key: key, Note: "asked by phone",
						Op: &stintv1.AdjustRequest_Reset_{Reset_: &stintv1.Reset{}}}))
			}
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, "plan/"+key+" 2 50%", "plan/"+key+" 3 0%",
				"login/"+key+" level 1", "plan/"+key+" reset: asked by phone")
		}
		slices.Sort(want)
		for i, stream := range streams {
			var got []string
			for len(got) < len(want) && stream.Receive() {
				switch e := stream.Msg(); {
				case e.Threshold != nil:
					got = append(got, fmt.Sprintf("%s/%s %d %d%%",
						e.Policy, e.Key, e.Threshold.Units, e.Threshold.Percent))
				case e.Lockout != nil && e.Lockout.BlockedUntil.AsTime().After(e.At.AsTime()):
					got = append(got, fmt.Sprintf("%s/%s level %d", e.Policy, e.Key, e.Lockout.Level))
				case e.Change != nil:
					got = append(got, fmt.Sprintf("%s/%s %s: %s", e.Policy, e.Key, e.Change.Deed, e.Change.Note))
				case e.Kind != stintv1.EventKind_EVENT_KIND_STREAM:
					t.Errorf("node %d: nobody asked for %v", i+1, e)
				}
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("node %d: got  %q\nwant %q (%v)", i+1, got, want, stream.Err())
			}
		}
		for i, n := range c.nodes {
			client := stintv1connect.NewLimitServiceClient(clientOf(n), "http://"+n.APIAddr())
			all := &stintv1.GetRequest{Explain: true}
			for _, key := range keys[:min(4, len(keys))] { // on several shards
				all.Entries = append(all.Entries, &stintv1.Entry{Policy: "plan", Key: key},
					&stintv1.Entry{Policy: "login", Key: key})
			}
			for _, all.StaleOk = range []bool{false, true} {
				var answer *connect.Response[stintv1.GetResponse]
				// its replica may be behind
				await.Until(t, fmt.Sprintf("node %d tells what has fired", i+1), func() bool {
					var err error
					answer, err = client.Get(t.Context(), connect.NewRequest(all))
					return err == nil && len(answer.Msg.Fired) == len(all.Entries)
				}, &answer)
				for _, f := range answer.Msg.Fired {
					if f.Policy != "plan" || f.Limit != "month" || f.Units != 2 && f.Units != 3 ||
						(f.Percent == 50) != (f.Units == 2) || !f.WindowEnd.AsTime().After(answer.Msg.At.AsTime()) ||
						f.WindowStart.AsTime().After(answer.Msg.At.AsTime()) {
						t.Errorf("node %d: fired %v", i+1, f)
					}
				}
			}
		}
	})
}
