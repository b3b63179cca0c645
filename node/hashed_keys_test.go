package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/offline/backup"
	"github.com/stint-io/stint/internal/offline/restore"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const personalKey, personalAddress = "ann.oyster@example.com", "203.0.113.177"

// hashingPolicies have a limit of each kind that keeps something of a key. The format's argument is the settings of the
// namespace.
const hashingPolicies = `
policies:
  person:
    parent: pool
    limits:
      - {name: total, quota: 3, lifetime: {}, on_recovery: keep}
    lockout: {after: 3, base: 1h}
  hourly:
    limits: [{name: hour, quota: 5, fixed_window: {period: 1h, anchor: first_hit}}]
  pool:
    limits: [{name: total, quota: 1000, lifetime: {}}]
  flooded:
    deny_cache: 1s
    limits: [{name: total, quota: 1, lifetime: {}}]
  billed:
    limits: [{name: total, quota: 1000, lifetime: {}}]
    meter: {name: calls, calendar: {unit: month}}
gates: {web: {namespace: default, trusted_proxies: [127.0.0.0/8], identity: [ip], no_match: deny, routes: [{match: {}, entries: [{policy: pool, key: "{ip}"}]}]}}
envoy: {edge: {namespace: default, rules: [{match: [{email: "*"}], entries: [{policy: pool, key: "{email}"}]}]}}
namespaces:
  default: {%s}
`

// callAPI posts a request and returns the answer, which must not be an error.
func callAPI(t *testing.T, n *Node, procedure, body string) string {
	t.Helper()
	status, text := tryAPI(t, n, procedure, body)
	if status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", procedure, body, status, text)
	}
	return text
}

func tryAPI(t *testing.T, n *Node, procedure, body string) (status int, text string) {
	t.Helper()
	client := clientOf(n)
	response, err := client.Post("http://"+n.APIAddr()+"/stint.v1."+procedure, "application/json",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

// decisionField returns a text of a decision.
func decisionField(t *testing.T, answer, name string) string {
	t.Helper()
	var m struct{ Decision map[string]any }
	if err := json.Unmarshal([]byte(answer), &m); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	text, _ := m.Decision[name].(string)
	if text == "" {
		t.Fatalf("no %s: %s", name, answer)
	}
	return text
}

// useKey does to a key what clients can do, on every node.
func useKey(t *testing.T, c *trio) {
	t.Helper()
	const key = "{acme}/" + personalKey
	entry := func(policyName string) string { return fmt.Sprintf(`{"policy":%q,"key":%q}`, policyName, key) }
	for i, n := range c.nodes {
		check := fmt.Sprintf(`{"entries":[%s],"explain":true,"idempotencyId":"check-%d"}`, entry("person"), i)
		first := callAPI(t, n, "LimitService/Check", check)
		again := callAPI(t, c.nodes[(i+1)%3], "LimitService/Check", check)
		if !strings.Contains(again, `"replayed":true`) || !strings.Contains(first, personalKey) {
			t.Errorf("%s\nagain\n%s", first, again)
		}
		callAPI(t, c.nodes[(i+1)%3], "LimitService/Settle",
			fmt.Sprintf(`{"decisionId":%q,"cancel":{}}`, decisionField(t, first, "decisionId")))
		held := callAPI(t, n, "LimitService/Reserve", fmt.Sprintf(`{"check":{"entries":[%s]},"ttl":"600s"}`,
			entry("person")))
		callAPI(t, c.nodes[(i+2)%3], "LimitService/Settle",
			fmt.Sprintf(`{"holdId":%q,"failed":{}}`, decisionField(t, held, "holdId")))
		callAPI(t, n, "LimitService/CheckBatch",
			fmt.Sprintf(`{"checks":[{"entries":[%s]},{"entries":[%s,{"policy":"pool","key":"x"}]}]}`,
				entry("flooded"), entry("flooded")))
	}
	n := c.nodes[0]
	denied := callAPI(t, n, "LimitService/Check", fmt.Sprintf(`{"entries":[%s],"explain":true}`, entry("person")))
	if !strings.Contains(denied, "person/total of "+key+": 3 of 3 used") ||
		!strings.HasPrefix(denied, `{"decision":{"allowed":false`) {
		t.Errorf("what all nodes have counted together: %s", denied)
	}
	callAPI(t, n, "LimitService/Adjust", fmt.Sprintf(`{"policy":"person","key":%q,"setUsed":"3","note":"a note"}`, key))
	callAPI(t, n, "PolicyService/PutOverride",
		fmt.Sprintf(`{"policy":"pool","key":%q,"limits":{"total":{"quota":"7"}}}`, key))
	if audit := callAPI(t, n, "ObserveService/Audit",
		fmt.Sprintf(`{"key":%q}`, key)); !strings.Contains(audit, "a note") ||
		!strings.Contains(audit, personalKey) {
		t.Errorf("the audit log of the key: %s", audit)
	}
	redis := redisClient(t, n.RedisAddr(), 3)
	redis.Incr(t.Context(), personalKey)
	if got, err := redis.Incr(t.Context(), personalKey).Result(); got != 2 || err != nil {
		t.Errorf("INCR: %d, %v", got, err)
	}
	if got, err := redis.MGet(t.Context(), personalKey, "nobody").Result(); err != nil || got[0] != "2" ||
		got[1] != nil {
		t.Errorf("MGET: %v, %v", got, err)
	}
	for _, command := range [][]any{{"CL.THROTTLE", personalKey, 1, 1, 60}, {"STINT.CHECK", "flooded", personalKey},
		{"STINT.CHECK", "flooded", personalKey}, {"STINT.CHECK", "person", "{pool}/" + personalKey}} {
		if err := redis.Do(t.Context(), command...).Err(); err != nil {
			t.Errorf("%v: %v", command, err)
		}
	}
}

// useOtherWays counts a key by the ways in that are not LimitService's, and asks for what stands out and what is
// billed.
func useOtherWays(t *testing.T, n *Node) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+n.GRPCAddr(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpcDialer(n))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// the last is refused, with an error that names it
	for _, key := range []string{personalKey, personalKey, "\x00" + personalKey} {
		m := &stintv1.CheckRequest{Entries: []*stintv1.Entry{{Policy: "billed", Key: key}}}
		if err := conn.Invoke(t.Context(), stintv1connect.LimitServiceCheckProcedure, m,
			&stintv1.CheckResponse{}); (err == nil) != (key == personalKey) {
			t.Errorf("by gRPC: %v", err)
		}
	}
	for path, header := range map[string]http.Header{
		"/gate/web": {"X-Forwarded-For": {personalAddress}, "X-Original-Method": {"GET"},
			"X-Original-Uri": {"/" + personalKey}},
		api.EnvoyProcedure: {"Content-Type": {"application/json"}},
	} {
		body := `{"domain":"edge","descriptors":[{"entries":[{"key":"email","value":"` + personalKey + `"}]}]}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+n.APIAddr()+path,
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header
		response, err := clientOf(n).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode/100 != 2 {
			t.Errorf("%s: %s %s", path, response.Status, text)
		}
	}
	if pool := callAPI(t, n, "LimitService/Get",
		`{"entries":[{"policy":"pool","key":"`+personalKey+`"},{"policy":"pool","key":"ip:`+personalAddress+`"}]}`); strings.Count(pool, `"used":"1"`) != 2 {
		t.Errorf("a gate and Envoy have counted: %s", pool)
	}
	if usage := callAPI(t, n, "ObserveService/ListUsage",
		`{"namespace":"default","policy":"billed","key":"`+personalKey+`"}`); !strings.Contains(usage, `"units":"2"`) {
		t.Errorf("the bill: %s", usage)
	}
	callAPI(t, n, "ObserveService/Top", `{"namespace":"default"}`)
	tryAPI(t, n, "ObserveService/ListKeys", `{"namespace":"default","policy":"billed"}`)
}

// keptOf returns everything that a cluster keeps or tells, by where it is.
func keptOf(t *testing.T, c *trio) map[string][]byte {
	t.Helper()
	kept := map[string][]byte{"log": []byte(c.journal.String())}
	for i, n := range c.nodes {
		response, err := clientOf(n).Get("http://" + n.APIAddr() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		metrics, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		kept["metrics"] = append(kept["metrics"], metrics...)
		err = filepath.WalkDir(c.configs[i].DataDir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return nil // compactions delete files
			}
			if text, err := os.ReadFile(path); err == nil {
				kept["data directories"] = append(kept["data directories"], text...)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range append(c.nodes[0].view.dataShards(), shard.System) {
		picture, err := c.nodes[0].admin.Picture(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		var section bytes.Buffer // as it is in a backup, before it is packed
		if _, err := picture.WriteTo(&section); err != nil {
			t.Fatal(err)
		}
		kept["backup"] = append(kept["backup"], section.Bytes()...)
	}
	return kept
}

func (v *clusterView) dataShards() (all []shard.ID) {
	for id := range v.shards() {
		all = append(all, shard.ID(id))
	}
	return all
}

func hashingTrio(t *testing.T, settings string) *trio {
	t.Helper()
	c := trioToBe(t)
	if err := os.WriteFile(c.configs[0].PoliciesFile, fmt.Appendf(nil, hashingPolicies, settings), 0o600); err != nil {
		t.Fatal(err)
	}
	c.configs[0].RedisAddr, c.configs[0].GRPCAddr = "127.0.0.1:0", "127.0.0.1:0"
	for i := range c.nodes {
		c.configs[i].World.FS = nil // its disk is read
		c.start(i)
	}
	c.ready(0, 1, 2)
	c.await("what keys are hashed with on every node", func(*stintv1.StatusResponse) bool {
		for _, n := range c.nodes {
			if _, _, err := n.view.keysAt(shard.DefaultNamespace); err != nil {
				return false
			}
		}
		return true
	})
	return c
}

// Nothing that three nodes keep, log, count or back up has a key of a namespace with hashed keys; without hashing all
// but the logs and the metrics have it, so this test would see it.
func TestNothingKeepsAHashedKey(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string][]string{"keys: hashed": nil, "": {"backup", "data directories"}} {
		t.Run(settings, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := hashingTrio(t, settings)
				useKey(t, c)
				useOtherWays(t, c.nodes[0])
				kept := keptOf(t, c)
				for _, where := range []string{"log", "metrics", "data directories", "backup"} {
					found := bytes.Contains(kept[where], []byte(personalKey)) ||
						bytes.Contains(kept[where], []byte("ann.oyster")) ||
						bytes.Contains(kept[where], []byte(personalAddress))
					if wanted := strings.Contains(strings.Join(want, ","), where); found != wanted ||
						len(kept[where]) == 0 {
						t.Errorf("%d bytes of %s: the key is there: %v, want %v",
							len(kept[where]), where, found, wanted)
					}
				}
			})
		})
	}
}

// Hashed keys go on with what they have used: after a restart, and in a cluster that is restored from a backup with all
// secrets.
func TestHashedKeysSurviveARestore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := onRealDisk(t)
		if err := os.WriteFile(config.PoliciesFile, fmt.Appendf(nil, hashingPolicies, "keys: hashed"),
			0o600); err != nil {
			t.Fatal(err)
		}
		n := start(t, config)
		spend := func(n *Node) bool {
			for { // a node that was just founded or restored may not have its secrets yet
				status, answer := tryAPI(t, n, "LimitService/Check",
					fmt.Sprintf(`{"entries":[{"policy":"person","key":%q}]}`, personalKey))
				if status == http.StatusOK {
					return strings.Contains(answer, `"allowed":true`)
				}
				if !strings.Contains(answer, "does not know the cluster's secret") || t.Context().Err() != nil {
					t.Fatalf("%d %s", status, answer)
				}
			}
		}
		for range 2 {
			if !spend(n) {
				t.Error("denied")
			}
		}
		before := n.view.newestSecrets().Keys
		file := backedUp(t, n)
		stop(t, n)
		n = start(t, config)
		if _, by, err := n.view.keysAt(shard.DefaultNamespace); err != nil || by == 0 ||
			!bytes.Equal(n.view.newestSecrets().Keys, before) {
			t.Errorf("after a restart: %v", err)
		}
		stop(t, n)
		config.DataDir = filepath.Join(t.TempDir(), "restored")
		r := planned(t, file, restore.Config{DataDir: config.DataDir})
		if r.NewHashes {
			t.Error("the secret of keys is drawn anew")
		}
		if err := r.Write(); err != nil {
			t.Fatal(err)
		}
		n = start(t, config)
		defer stop(t, n)
		if !bytes.Equal(n.view.newestSecrets().Keys, before) || len(before) == 0 {
			t.Error("the restored cluster hashes keys with another secret")
		}
		if !spend(n) || spend(n) {
			t.Error("2 of 3 were used before the backup: want one more")
		}
	})
}

// A backup that has lost the secret of keys knows no hashed key: they count as full, even if the backup is exact
// otherwise.
func TestARestoreWithoutTheSecretOfKeys(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := onRealDisk(t)
		if err := os.WriteFile(config.PoliciesFile, fmt.Appendf(nil, hashingPolicies, ""), 0o600); err != nil {
			t.Fatal(err)
		}
		n := start(t, config)
		older := backedUp(t, n)
		set, err := policy.Parse("p", fmt.Appendf(nil, hashingPolicies, "keys: hashed"))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := n.admin.Apply(t.Context(), set, nil, true, "jo", ""); err != nil {
			t.Fatal(err)
		}
		check := func(n *Node) string {
			return callAPI(t, n, "LimitService/Check", fmt.Sprintf(`{"entries":[{"policy":"hourly","key":%q}]}`,
				personalKey))
		}
		for range 3 {
			if answer := check(n); !strings.Contains(answer, `"allowed":true`) {
				t.Error(answer)
			}
		}
		secret := n.view.newestSecrets().Keys
		file := backedUp(t, n)
		stop(t, n)
		b, err := backup.Read(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		before, err := backup.Read(bytes.NewReader(older), int64(len(older)))
		if err != nil {
			t.Fatal(err)
		}
		b.System = before.System // as stint tool recover --backup makes it, if nothing of the system shard is left
		config.DataDir = filepath.Join(t.TempDir(), "restored")
		r, err := restore.Plan(b, restore.Config{DataDir: config.DataDir, Now: time.Now(), Version: "test",
			Margin: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if !r.NewHashes || r.DataExact() || len(r.Ends) == 0 {
			t.Errorf("new hashes: %v, exact: %v", r.NewHashes, r.DataExact())
		}
		if err := r.Write(); err != nil {
			t.Fatal(err)
		}
		n = start(t, config)
		defer stop(t, n)
		if drawn := n.view.newestSecrets().Keys; len(drawn) == 0 || bytes.Equal(drawn, secret) {
			t.Error("no secret of its own")
		}
		if answer := check(n); strings.Contains(answer, `"allowed":true`) {
			t.Errorf("what the lost secret counted is admitted again: %s", answer)
		}
	})
}

// To hash keys, or to cease, makes all of them new: it has to be said, to the node too. Each node counts by one form.
func TestTheSwitchToHashedKeysHasToBeMeant(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := hashingTrio(t, "")
		set := func(settings string) *policy.Set {
			s, err := policy.Parse("p", fmt.Appendf(nil, hashingPolicies, settings))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		spend := func(i int) bool {
			return strings.Contains(callAPI(t, c.nodes[i], "LimitService/Check",
				fmt.Sprintf(`{"entries":[{"policy":"person","key":%q}]}`, personalKey)),
				`"allowed":true`)
		}
		for i := range 4 {
			if got := spend(i % 3); got != (i < 3) {
				t.Errorf("request %d: %v", i, got)
			}
		}
		if _, _, err := c.nodes[0].admin.Apply(t.Context(), set("keys: hashed"), nil, false, "jo", ""); err == nil ||
			!strings.Contains(err.Error(), "rekey") || !strings.Contains(err.Error(), "default") {
			t.Fatalf("applied unasked: %v", err)
		}
		version, _, err := c.nodes[0].admin.Apply(t.Context(), set("keys: hashed"), nil, true, "jo", "")
		if err != nil {
			t.Fatal(err)
		}
		// From here on every node that answers counts the hash, and none the key: a node that has not heard waits, or
		// is refused.
		admitted := 0
		for i := range 12 {
			status, answer := tryAPI(t, c.nodes[i%3], "LimitService/Check",
				fmt.Sprintf(`{"entries":[{"policy":"person","key":%q}]}`, personalKey))
			if status != http.StatusOK && !strings.Contains(answer, `"code":"unavailable"`) {
				t.Errorf("%d %s", status, answer)
			}
			if strings.Contains(answer, `"allowed":true`) {
				admitted++
			}
		}
		c.await("every shard adopts the policies", func(*stintv1.StatusResponse) bool {
			return len(c.nodes[0].admin.pendingShards(version)) == 0
		})
		for range 4 {
			if spend(2) {
				admitted++
			}
		}
		if admitted != 3 {
			t.Errorf("%d admitted under the hash, want 3", admitted)
		}
		// A request that a node made by the older policies reaches a shard that has adopted the newer.
		late := shard.Request{Op: shard.Check, Namespace: shard.DefaultNamespace, Revision: version - 1,
			Entries: []shard.Entry{{Policy: "pool", Key: personalKey, Cost: 1}}}
		tally := shard.Request{Op: shard.Tally, Namespace: shard.DefaultNamespace,
			Tally:   &shard.TallyTerms{Verb: shard.TallyAdd, Amount: 1},
			Entries: []shard.Entry{{Key: personalKey, Cost: 1, Limits: shard.TallyLimits}}}
		for _, r := range c.nodes[1].router.Decide(t.Context(), []shard.Request{late, tally}) {
			if r.Err == nil || r.Err.Code != shard.Outdated {
				t.Errorf("a late node has counted a plain key: %+v", r)
			}
		}
		if _, _, err := c.nodes[1].admin.Apply(t.Context(), set(""), nil, false, "jo", ""); err == nil ||
			!strings.Contains(err.Error(), "rekey") {
			t.Errorf("plain again, unasked: %v", err)
		}
	})
}
