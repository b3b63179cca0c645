package node

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
)

const leasedPolicies = `policies:
  hot:
    lease: {units: 40, for: 2s}
    limits:
      - {name: hour, quota: 300, fixed_window: {period: 1h}}
namespaces:
  hashed: {keys: hashed}
`

// A change by hand holds at all nodes when it is answered, whichever node was asked. Without that a node would spend its
// lease to the end.
func TestAChangeByHandEndsTheLeasesOfAllNodes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := leasedTrio(t)
		for i, key := range []string{"a", "b", "c"} {
			check := func(node int) string {
				return callAPI(t, c.nodes[node], "LimitService/Check",
					fmt.Sprintf(`{"entries":[{"policy":"hot","key":%q}]}`, key))
			}
			for node := range c.nodes {
				await.Until(t, "a lease", func() bool { return strings.Contains(check(node), `"leased":true`) })
			}
			answer := callAPI(t, c.nodes[i], "LimitService/Adjust",
				fmt.Sprintf(`{"policy":"hot","key":%q,"blockUntil":"2050-01-01T00:00:00Z"}`, key))
			if strings.Contains(answer, `"leases"`) {
				t.Errorf("leases are open after the change: %s", answer)
			}
			for node := range c.nodes {
				if answer := check(node); strings.Contains(answer, `"decision":{"allowed":true`) {
					t.Errorf("node %d, although the key is blocked: %s", node, answer)
				}
			}
		}
	})
}

// leasedTrio returns three nodes with leasedPolicies and a Redis port, each shard with the owner that it keeps, which
// knows what it has counted.
func leasedTrio(t *testing.T) *trio {
	c := trioToBe(t)
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(leasedPolicies), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range c.nodes {
		c.configs[i].PoliciesFile = file
		c.configs[i].RedisAddr = "127.0.0.1:0"
		c.start(i)
	}
	c.ready(0, 1, 2)
	time.Sleep(20 * time.Second)
	return c
}

// Three nodes answer a hot key from leases, by the API and by the Redis port, also where keys are hashed. They admit
// the limit and no more, a node that stops wastes nothing, and each admission is among the keys that stand out.
func TestThreeNodesHoldLeases(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := leasedTrio(t)
		admitted := map[string]int{}
		leased := map[string]int{}
		check := func(i int, namespace string) {
			answer := callAPI(t, c.nodes[i], "LimitService/Check",
				fmt.Sprintf(`{"namespace":%q,"entries":[{"policy":"hot","key":"k"}]}`, namespace))
			if strings.Contains(answer, `"allowed":true,"decisionId"`) {
				admitted[namespace]++
			}
			if strings.Contains(answer, `"leased":true`) {
				leased[namespace]++
				if !strings.Contains(answer, `"decisionId":""`) || !strings.Contains(answer, `"key":"k"`) {
					t.Error(answer)
				}
			}
			time.Sleep(time.Millisecond)
		}
		redis := redisClient(t, c.nodes[0].RedisAddr(), 3)
		for n := range 150 {
			check(n%3, "default")
			check(n%3, "hashed")
			if n%10 == 0 {
				if err := redis.Do(t.Context(), "STINT.CHECK", "hot", "k").Err(); err != nil {
					t.Fatal(err)
				}
				admitted["default"]++
			}
		}
		answer, missing, err := c.nodes[1].topReader.Top(t.Context(),
			&top.Query{Namespace: shard.DefaultNamespace, Policies: []string{"hot"}, Order: top.Units,
				Span: top.Hour, Count: 1})
		if err != nil || len(missing) > 0 ||
			answer.Policies[0].Keys[0].Estimates[top.Units].Count != uint64(admitted["default"]) {
			t.Errorf("the keys that stand out: %+v, without %v: %v; %v admitted, %v leased",
				answer, missing, err, admitted, leased)
		}
		answers := callAPI(t, c.nodes[1], "ObserveService/ListKeys", `{"leases":true}`)
		if !regexp.MustCompile(`"key":"k".*"holder":"[^"/]+/[A-Z0-9]{26}", ?"units":"[0-9]+", ?"endsAt":`).
			MatchString(answers) {
			t.Errorf("who holds leases: %s", answers)
		}
		if status := callAPI(t, c.nodes[1], "ClusterService/Status", `{}`); !regexp.MustCompile(`"leases": ?[1-9]`).
			MatchString(status) {
			t.Errorf("no node says that it holds a lease: %s", status)
		}
		// All nodes return their leases before a change. A client may still spend its own.
		const ofClient = `{"policy":"hot","key":"k","holder":"a client of its own",`
		callAPI(t, c.nodes[0], "LimitService/Lease", ofClient+`"number":"1","units":"3"}`)
		answers = callAPI(t, c.nodes[0], "LimitService/Adjust", `{"policy":"hot","key":"k","unblock":{}}`)
		if !strings.Contains(answers, `"leases":{"units":"3"`) {
			t.Errorf("a change beside the lease of a client: %s", answers)
		}
		callAPI(t, c.nodes[0], "LimitService/Lease", ofClient+`"returned":"1","spent":"0"}`)
		c.stop(2)
		time.Sleep(500 * time.Millisecond) // the other leases are idle
		synctest.Wait()
		for _, namespace := range []string{"default", "hashed"} {
			answer := callAPI(t, c.nodes[1], "LimitService/Get",
				fmt.Sprintf(`{"namespace":%q,"entries":[{"policy":"hot","key":"k"}]}`, namespace))
			if !strings.Contains(answer, fmt.Sprintf(`"used":"%d"`, admitted[namespace])) || leased[namespace] < 50 {
				t.Errorf("%s: admitted %d, %d of them leased: %s",
					namespace, admitted[namespace], leased[namespace], answer)
			}
		}
		for n := range 400 {
			check(n%2, "default")
		}
		if admitted["default"] != 300 {
			t.Errorf("%d were admitted of 300", admitted["default"])
		}
	})
}
