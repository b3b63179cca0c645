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

// Three nodes answer a hot key from leases, by the API and by the Redis port, also where keys are hashed. They admit
// the limit and no more, a node that stops wastes nothing, and each admission is among the keys that stand out.
func TestThreeNodesHoldLeases(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
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
		time.Sleep(20 * time.Second) // each shard has the owner that it keeps, which knows what it has counted
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
		// This node and the owner's return their leases before the change. The third one may still spend its own.
		answers = ""
		for tries := 0; tries < 9 && !strings.Contains(answers, `"leases":{"units":`); tries++ {
			for n := range 9 {
				check(n%3, "default")
			}
			answers = callAPI(t, c.nodes[0], "LimitService/Adjust", `{"policy":"hot","key":"k","unblock":{}}`)
		}
		if !strings.Contains(answers, `"leases":{"units":`) {
			t.Errorf("a change beside the lease of another node: %s", answers)
		}
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
