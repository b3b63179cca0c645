package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/offline/restore"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const edgePolicies = `policies:
  hot:
    lease: {units: 40, for: 2s}
    limits: [{name: hour, quota: 600, fixed_window: {period: 1h}}]
  few: {limits: [{name: total, quota: 2, lifetime: {}}]}
  plenty: {limits: [{name: total, quota: 1000000, lifetime: {}}]}
namespaces:
  hashed: {keys: hashed}
envoy: {proxy: {rules: [{match: [{k: "*"}], entries: [{policy: few, key: "{k}"}]}]}}
gates:
  default:
    trusted_proxies: [127.0.0.0/8]
    no_match: deny
    routes:
      - {match: {path: /open}, fail: open, entries: [{policy: plenty, key: "{ip}"}]}
      - {match: {path: /closed}, fail: closed, entries: [{policy: plenty, key: "{ip}"}]}
      - {match: {path: /few}, fail: closed, entries: [{policy: few, key: "{ip}"}]}
`

// edges is a cluster with edges, each of which is in a zone of its own.
type edges struct {
	*trio
	token string // an administrator's
}

// newEdges founds a cluster that asks for tokens.
func newEdges(t *testing.T) *edges {
	t.Helper()
	c := trioToBe(t)
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(edgePolicies), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range c.nodes {
		c.configs[i].PoliciesFile = file
		c.configs[i].APIAddr = strings.Replace(freeAddr(t), "7402", "7400", 1)
		c.configs[i].GRPCAddr, c.configs[i].RedisAddr = "127.0.0.1:0", "127.0.0.1:0"
		c.start(i)
	}
	c.ready(0, 1, 2)
	return &edges{c, createToken(t, c.configs[0].DataDir, "root", "admin")}
}

// make makes a token with grants.
func (c *edges) make(name string, all ...map[string]any) string {
	c.t.Helper()
	text, _ := bySocket(c.t, c.configs[0].DataDir, "TokenService/Create",
		map[string]any{"name": name, "grants": all})["token"].(string)
	if text == "" {
		c.t.Fatalf("no token %s", name)
	}
	return text
}

// usual makes the token of an edge that may ask for all that its doors do.
func (c *edges) usual(name string) string {
	return c.make(name, map[string]any{"ops": []string{"edge", "check", "lease", "read", "adjust", "inline"}})
}

// config is that of an edge in a zone. The net knows the edge by the zone's name.
func (c *edges) config(zone, token string) EdgeConfig {
	m := memoryOf(c.t)
	layer := m.net.Listen(zone)
	world := worldOf(c.t)
	world.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		patience := time.Minute
		if deadline, ok := ctx.Deadline(); ok {
			patience = time.Until(deadline)
		}
		conn, err := layer.Dial(addr, patience)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: "memory", Err: err}
		}
		return conn, nil
	}
	config := EdgeConfig{Config: Config{ClientPorts: ClientPorts{APIAddr: "127.0.0.1:0", GRPCAddr: "127.0.0.1:0",
		RedisAddr: "127.0.0.1:0"},
		World: world, Logger: c.journal.of(zone)}, UpstreamToken: func() (string, error) { return token, nil }}
	for i := range c.configs {
		config.Upstream = append(config.Upstream, "http://"+c.configs[i].APIAddr)
	}
	return config
}

// edge starts an edge.
func (c *edges) edge(config EdgeConfig) *Edge {
	c.t.Helper()
	e, err := StartEdge(config)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			c.t.Errorf("closing an edge: %v", err)
		}
	})
	return e
}

func (c *edges) readyEdge(config EdgeConfig) *Edge {
	c.t.Helper()
	e := c.edge(config)
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	if err := e.AwaitReady(ctx); err != nil {
		c.t.Fatal(err)
	}
	return e
}

// doors are those of a node or of an edge, for a caller with a token.
type doors struct {
	t                *testing.T
	api, grpc, redis string
	token            string
	http             *http.Client
}

func (c *edges) doors(t *testing.T, of interface {
	APIAddr() string
	GRPCAddr() string
	RedisAddr() string
}, token string) *doors {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		return memoryOf(t).dial(ctx, addr)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &doors{t, of.APIAddr(), of.GRPCAddr(), of.RedisAddr(), token, &http.Client{Transport: transport}}
}

// call makes a call in JSON.
func (d *doors) call(procedure, body string) (status int, text string) {
	d.t.Helper()
	return d.callIn(d.t.Context(), procedure, body)
}

func (d *doors) callIn(ctx context.Context, procedure, body string) (status int, text string) {
	d.t.Helper()
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.api+"/stint.v1."+procedure,
		strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+d.token)
	return d.do(r)
}

func (d *doors) do(r *http.Request) (status int, text string) {
	d.t.Helper()
	response, err := d.http.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(answer)
}

// gate asks a gate about a path.
func (d *doors) gate(path, ip string) int {
	d.t.Helper()
	r, _ := http.NewRequestWithContext(d.t.Context(), http.MethodGet, "http://"+d.api+"/gate/default", nil)
	r.Header.Set("Stint-Token", d.token)
	for name, value := range map[string]string{"X-Forwarded-Method": "GET", "X-Forwarded-Uri": path,
		"X-Forwarded-Host": "a", "X-Forwarded-For": ip, "X-Forwarded-Proto": "http"} {
		r.Header.Set(name, value)
	}
	status, _ := d.do(r)
	return status
}

// dial connects to the port for gRPC alone.
func (d *doors) dial() *grpc.ClientConn {
	conn, err := grpc.NewClient("passthrough:///"+d.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return memoryOf(d.t).dial(ctx, addr)
		}))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	return conn
}

func field(text, name string) string {
	found := regexp.MustCompile(`"` + name + `":"([^"]*)"`).FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return found[1]
}

// The requests of a caller have the same answers by each door of an edge as by that of a node, and ids that one of them
// gave are good at the other.
func TestAnEdgeAnswersAsANodeDoes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newEdges(t)
		e := c.readyEdge(c.config("edge-a", c.usual("edge")))
		node, edge := c.doors(t, c.nodes[1], c.token), c.doors(t, e, c.token)
		ways := []func(d, other *doors) []string{jsonWay, grpcWay, redisWay, gateWay}
		varies := regexp.MustCompile(
			`"positions":\[[^]]*\]|"(value|decisionId|holdId|holdExpiresAt|decidedAt|epoch|seq|resetAt|windowStart|shard|at|addr)":"?[^",}]*"?|node \S+|\d+(\.\d+)?m?s`)
		for i, way := range ways {
			atNode, atEdge := way(node, edge), way(edge, node)
			for j := range atNode {
				a, b := strings.ReplaceAll(atNode[j], node.api, "HERE"), strings.ReplaceAll(atEdge[j], edge.api, "HERE")
				if varies.ReplaceAllString(a, "") != varies.ReplaceAllString(b, "") {
					t.Errorf("way %d, question %d: a node answers\n%s\nan edge\n%s", i, j, a, b)
				}
			}
		}
		if status, text := edge.call("ClusterService/Status", `{}`); status != 200 ||
			strings.Contains(text, `"first"`) || !strings.Contains(text, `"apiAddr"`) {
			t.Errorf("its clients would ask the owners past it: %d %s", status, text)
		}
		time.Sleep(5 * time.Second) // what its node says of it has reached the others
		if _, text := node.call("ClusterService/Status", `{}`); !regexp.MustCompile(`"edges": ?1\b`).MatchString(text) {
			t.Errorf("no node says that the edge is connected: %s", text)
		}
		if status, text := edge.call("LimitService/Check",
			`{"namespace":"hashed","entries":[{"policy":"plenty","key":"a@b"}]}`); status != 503 {
			t.Errorf("where keys are hashed: %d %s", status, text)
		}
	})
}

// caller is the beginning of the keys of a way, so that each asks for keys of its own.
func (d *doors) caller() string { return regexp.MustCompile(`\W`).ReplaceAllString(d.api, "_") }

// keyless is an answer without the caller's keys.
func (d *doors) keyless(text string) string { return strings.ReplaceAll(text, d.caller(), "") }

func jsonWay(d, other *doors) (said []string) {
	ask := func(d *doors, procedure, body string) string {
		status, text := d.call(procedure, strings.ReplaceAll(body, "KEY", d.caller()))
		said = append(said, fmt.Sprint(status, " ", d.keyless(text)))
		return text
	}
	for range 3 {
		ask(d, "LimitService/Check", `{"entries":[{"policy":"few","key":"KEY"}]}`)
	}
	ask(d, "LimitService/Check", `{"entries":[{"policy":"few","key":"KEY"}],"explain":true}`)
	ask(d, "LimitService/Check", `{"entries":[{"policy":"none","key":"KEY"}]}`)
	ask(d, "LimitService/Check", `{"entries":[{"policy":"few","key":"KEY2"},{"policy":"plenty","key":"KEY3"},`+
		`{"policy":"plenty","key":"KEY4"}]}`)
	ask(d, "LimitService/CheckBatch", `{"checks":[{"entries":[{"policy":"few","key":"KEY5"}]},`+
		`{"entries":[{"policy":"none","key":"KEY"}]}]}`)
	ask(d, "LimitService/Get", `{"entries":[{"policy":"few","key":"KEY"}]}`)
	ask(d, "LimitService/Check", `{"entries":[{"policy":"plenty","key":"KEY","cost":"3"}],"mode":"MODE_PARTIAL"}`)
	once := `{"entries":[{"policy":"few","key":"KEY6"}],"idempotencyId":"once-KEY"}`
	ask(d, "LimitService/Check", once)
	ask(d, "LimitService/Check", once)
	// A hold and a decision of one are settled at the other.
	held := ask(d, "LimitService/Reserve", `{"check":{"entries":[{"policy":"plenty","key":"KEY","cost":"7"}]},`+
		`"ttl":"60s"}`)
	for _, at := range []*doors{d, other} {
		status, text := at.call("LimitService/Settle", fmt.Sprintf(`{"holdId":%q,"extend":{"ttl":"90s"}}`,
			field(held, "holdId")))
		said = append(said, fmt.Sprint(status, " ", d.keyless(text)))
		held = text
	}
	counted := ask(d, "LimitService/Check", `{"entries":[{"policy":"few","key":"KEY7"}]}`)
	status, text := other.call("LimitService/Settle", fmt.Sprintf(`{"decisionId":%q,"cancel":{}}`,
		field(counted, "decisionId")))
	said = append(said, fmt.Sprint(status, " ", d.keyless(text)))
	ask(d, "LimitService/Get", `{"entries":[{"policy":"few","key":"KEY7"}]}`)
	ask(d, "LimitService/Adjust", `{"policy":"few","key":"KEY7","setUsed":"1","note":"by hand"}`)
	ask(d, "PolicyService/List", `{}`)
	ask(d, "LimitService/Check", `{"entries":[]}`)
	return said
}

func grpcWay(d, _ *doors) (said []string) {
	conn := d.dial()
	ctx := metadata.AppendToOutgoingContext(d.t.Context(), "authorization", "Bearer "+d.token)
	for range 3 {
		var answer stintv1.CheckResponse
		err := conn.Invoke(ctx, stintv1connect.LimitServiceCheckProcedure, &stintv1.CheckRequest{
			Entries: []*stintv1.Entry{{Policy: "few", Key: d.caller() + "grpc"}}}, &answer)
		said = append(said, fmt.Sprint(answer.GetDecision().GetAllowed(), answer.GetDecision().GetReason(), err))
	}
	var policies stintv1.ListPoliciesResponse // which a node answers in an edge's place
	err := conn.Invoke(ctx, stintv1connect.PolicyServiceListProcedure, &stintv1.ListPoliciesRequest{}, &policies)
	said = append(said, fmt.Sprint(len(policies.Policies), err))
	envoy := rlsv3.NewRateLimitServiceClient(conn)
	for range 3 {
		answer, err := envoy.ShouldRateLimit(ctx,
			&rlsv3.RateLimitRequest{Domain: "proxy", Descriptors: []*ratelimitv3.RateLimitDescriptor{{
				Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "k", Value: d.caller() + "envoy"}}}}})
		said = append(said, fmt.Sprint(answer.GetOverallCode(), err))
	}
	authz, err := authv3.NewAuthorizationClient(conn).Check(ctx, loginTo("/closed"))
	return append(said, fmt.Sprint(authz.GetOkResponse() != nil, err))
}

func redisWay(d, _ *doors) (said []string) {
	client := redisClient(d.t, d.redis, 3)
	k := d.caller() + "redis"
	for _, command := range [][]any{{"AUTH", d.token}, {"INCR", k}, {"INCRBY", k, 4}, {"GET", k}, {"EXPIRE", k, 100},
		{"SET", k, 7}, {"GET", k}, {"DEL", k}, {"GET", k}, {"CL.THROTTLE", k, 1, 2, 60}, {"CL.THROTTLE", k, 1, 2, 60},
		{"CL.THROTTLE", k, 1, 2, 60}, {"STINT.CHECK", "few", k}, {"STINT.CHECK", "few", k}, {"STINT.CHECK", "few", k},
		{"STINT.CHECK", "none", k}, {"WAIT", 1, 0}} {
		conn := client.Conn()
		conn.Do(d.t.Context(), "AUTH", d.token)
		answer, err := conn.Do(d.t.Context(), command...).Result()
		conn.Close()
		said = append(said, fmt.Sprint(command[0], " ", answer, " ", err))
	}
	return said
}

func gateWay(d, _ *doors) (said []string) {
	ip := map[bool]string{true: "203.0.113.1", false: "203.0.113.2"}[len(d.api)%2 == 0]
	if strings.HasPrefix(d.api, "127.0.0.1:") {
		ip = "203.0.113.3"
	}
	for _, path := range []string{"/few", "/few", "/few", "/open", "/nowhere"} {
		said = append(said, fmt.Sprint(path, d.gate(path, ip)))
	}
	return said
}

// Callers of two edges and of the cluster want more of a key than there is. Each admission is within the limit, one of
// the edges dies on the way, and the others waste nothing but its lease.
func TestTwoEdgesAndTheClusterShareALimit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newEdges(t)
		token := c.usual("edge")
		a, b := c.readyEdge(c.config("edge-a", token)), c.readyEdge(c.config("edge-b", token))
		var admitted, leased atomic.Int64
		var callers sync.WaitGroup
		for i, d := range []*doors{c.doors(t, a, c.token), c.doors(t, b, c.token), c.doors(t, c.nodes[0], c.token)} {
			for range 4 {
				callers.Go(func() {
					for n := range 150 {
						status, text := d.call("LimitService/Check", `{"entries":[{"policy":"hot","key":"k"}]}`)
						switch {
						case status == 200 && strings.Contains(text, `"allowed":true,"decisionId"`):
							admitted.Add(1)
						case status != 200 && i == 1:
							return
						case status != 200:
							t.Errorf("door %d: %d %s", i, status, text)
						}
						if strings.Contains(text, `"leased":true`) {
							leased.Add(1)
						}
						if i == 1 && n == 40 {
							memoryOf(t).net.Isolate("edge-b")
						}
						time.Sleep(time.Duration(3+i) * time.Millisecond)
					}
				})
			}
		}
		callers.Wait()
		time.Sleep(15 * time.Second) // the lease that is lost has ended
		for _, d := range []*doors{c.doors(t, a, c.token), c.doors(t, c.nodes[0], c.token)} {
			for denied := 0; denied < 3; { // while a lease is out, the owner may deny what comes back
				_, text := d.call("LimitService/Check", `{"entries":[{"policy":"hot","key":"k"}]}`)
				if strings.Contains(text, `"allowed":true,"decisionId"`) {
					admitted.Add(1)
					continue
				}
				denied++
				time.Sleep(3 * time.Second)
			}
		}
		const lost = 40 + 8 // a lease, and an answer for each of the callers that waited
		if got := admitted.Load(); got > 600 || got < 600-lost || leased.Load() < 100 {
			t.Errorf("admitted %d of 600, %d of them from leases", got, leased.Load())
		}
	})
}

// At an edge 80 ms away from its cluster, a check of a hot key makes no round trip, and no other one more than one.
func TestAHotKeyCostsAnEdgeNoRoundTrip(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newEdges(t)
		const trip = 80 * time.Millisecond
		for _, way := range [][2]string{{"edge-a", ""}, {"", "edge-a"}} {
			memoryOf(t).net.Delay(way[0], way[1], trip/2)
		}
		e := c.readyEdge(c.config("edge-a", c.usual("edge")))
		var took []time.Duration
		for n := range 400 {
			began := time.Now()
			r := e.router.Decide(t.Context(), []shard.Request{{Op: shard.Check, Namespace: "default",
				Entries: []shard.Entry{{Policy: "hot", Key: "k", Cost: 1}}}})[0]
			if r.Err != nil || !r.Decision.Allowed {
				t.Fatalf("%d: %+v", n, r)
			}
			took = append(took, time.Since(began))
			time.Sleep(10 * time.Millisecond)
		}
		slices.Sort(took)
		// Beside the way to the node that is asked, there is the way from it to the owner and to the disks: 4 ms each.
		if p50, p99 := took[len(took)/2], took[len(took)*99/100]; p50 > 0 || p99 > trip+40*time.Millisecond {
			t.Errorf("p50 %v, p99 %v", p50, p99)
		}
	})
}

// An edge that is cut off spends what it has leased, and then says that it does not know. Its gates fail as their
// routes say. It finds the node that is left when others stop, and a caller's request without an id is not made twice.
func TestAnEdgeThatIsCutOff(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newEdges(t)
		e := c.readyEdge(c.config("edge-a", c.usual("edge")))
		d := c.doors(t, e, c.token)
		hot := func() (status int, text string) {
			return d.call("LimitService/Check", `{"entries":[{"policy":"hot","key":"k"}]}`)
		}
		await.Until(t, "a lease", func() bool { _, text := hot(); return strings.Contains(text, `"leased":true`) })
		net := memoryOf(t).net
		net.Isolate("edge-a")
		if status, text := hot(); status != 200 || !strings.Contains(text, `"leased":true`) {
			t.Errorf("a leased key: %d %s", status, text)
		}
		if open, closed := d.gate("/open", "203.0.113.9"), d.gate("/closed", "203.0.113.9"); open != 200 ||
			closed == 200 {
			t.Errorf("the gate answers %d where it fails open, and %d where it fails closed", open, closed)
		}
		time.Sleep(10 * time.Second)
		if status, text := hot(); status != 503 || !strings.Contains(text, "nothing was counted") {
			t.Errorf("after the lease: %d %s", status, text)
		}
		if status, text := d.call("PolicyService/List", `{}`); status != 503 {
			t.Errorf("a call that nodes answer: %d %s", status, text)
		}
		if e.Ready() == nil {
			t.Error("it is ready")
		}
		net.Rejoin("edge-a")
		await.Until(t, "it is ready again", func() bool { return e.Ready() == nil })
		if status, text := hot(); status != 200 {
			t.Errorf("when it is back: %d %s", status, text)
		}

		// What is under way when the connection breaks may have been counted, and no answer says otherwise.
		net.Cut("", "edge-a")
		answered := make(chan string)
		go func() {
			_, text := d.call("LimitService/Check", `{"entries":[{"policy":"plenty","key":"once"}]}`)
			answered <- text
		}()
		time.Sleep(time.Second)
		net.Heal()
		net.Break("edge-a", "")
		text := <-answered
		net.Heal()
		if !strings.Contains(text, `"aborted"`) || !strings.Contains(text, `"maybeApplied":true`) {
			t.Errorf("a broken call: %s", text)
		}
		if r := c.ask(1, shard.Get, "plenty", "once"); r.Err != nil || r.Decision.Limits[0].Used > 1 {
			t.Errorf("it is counted %+v", r)
		}

		c.stop(0)
		await.Until(t, "another node is asked", func() bool { return e.Ready() == nil })
		if status, text := d.call("LimitService/Check", `{"entries":[{"policy":"plenty","key":"k"}]}`); status != 200 {
			t.Errorf("with one node less: %d %s", status, text)
		}
		c.start(0)
		c.ready(0)
	})
}

// A node that hangs refuses no connection. Other nodes answer what an edge asks and passes on meanwhile, and nobody
// waits for the silent one again and again.
func TestAnEdgeLeavesANodeThatHangs(t *testing.T) {
	t.Parallel()
	for _, connected := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			c := newEdges(t)
			e := c.readyEdge(c.config("edge-a", c.usual("edge")))
			d := c.doors(t, e, c.token)
			if connected { // over a connection that calls which are passed on share
				if status, text := d.call("PolicyService/List", `{}`); status != 200 {
					t.Fatalf("before: %d %s", status, text)
				}
			}
			ask := func(procedure, body string, within time.Duration) {
				t.Helper()
				began := time.Now()
				if status, text := d.call(procedure, body); status != 200 || time.Since(began) > within {
					t.Errorf("connected before: %v; %s: %d in %v: %s", connected, procedure, status, time.Since(began), text)
				}
			}
			const once = `{"entries":[{"policy":"plenty","key":"k"}],"idempotencyId":"once"}`
			memoryOf(t).net.Cut("edge-a", c.configs[0].APIAddr)
			if connected {
				d.call("PolicyService/List", `{}`) // it was sent, and may have been done
			} else {
				ask("PolicyService/List", `{}`, 4*time.Second)
			}
			ask("LimitService/Check", once, 4*time.Second)
			for range 5 {
				time.Sleep(time.Second)
				ask("PolicyService/List", `{}`, time.Second)
				ask("LimitService/Check", `{"entries":[{"policy":"plenty","key":"k"}]}`, time.Second)
			}
			memoryOf(t).net.Heal()
		})
	}
}

// The order is that of the list where nothing is known, and what is known ends by itself.
func TestWhoeverWasSilentLastIsAskedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{addresses: []string{"a", "b", "c"}, silent: make(map[string]time.Time)}
		inTurn := func(want string) {
			t.Helper()
			if got := strings.Join(u.inTurn(), " "); got != want {
				t.Errorf("they are asked in the order %s, want %s", got, want)
			}
		}
		inTurn("a b c")
		for _, step := range []struct {
			address  string
			answered bool
			want     string
		}{{"a", false, "b c a"}, {"b", false, "c a b"}, {"a", false, "c b a"}, {"b", true, "b c a"}} {
			time.Sleep(time.Second)
			u.note(step.address, step.answered)
			inTurn(step.want)
		}
		time.Sleep(silentFor)
		inTurn("a b c")
	})
}

// A caller that gives up before a node that hangs is known to hang tells an edge as much of it as one that waits.
func TestAnEdgeLeavesANodeThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	for _, connected := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			c := newEdges(t)
			d := c.doors(t, c.readyEdge(c.config("edge-a", c.usual("edge"))), c.token)
			failed := 0
			list := func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
				defer cancel()
				if status, _ := d.callIn(ctx, "PolicyService/List", `{}`); status != 200 {
					failed++
				}
			}
			if connected {
				list()
			}
			memoryOf(t).net.Cut("edge-a", c.configs[0].APIAddr)
			for range 8 {
				list()
				time.Sleep(time.Second)
			}
			if failed > 1 {
				t.Errorf("connected before: %v; %d of 8 calls met the node that hangs", connected, failed)
			}
			memoryOf(t).net.Heal()
		})
	}
}

// A cluster that was restored is another one: its documents may have lower versions than those of the former, which an
// edge that goes on would take for newer. So it ends, and one that is started then knows the new cluster.
func TestAnEdgeEndsWhenItsClusterIsRestored(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		config := onRealDisk(t)
		config.APIAddr = strings.Replace(freeAddr(t), "7402", "7400", 1)
		n := start(t, config)
		file := backedUp(t, n)
		c := &edges{trio: &trio{t: t, journal: newJournal(t), configs: []Config{config}}}
		e := c.readyEdge(c.config("edge-a", ""))
		for quota := range 3 {
			text := fmt.Appendf(nil, "policies: {p: {limits: [{name: l, quota: %d, lifetime: {}}]}}", quota)
			set, err := policy.Parse("", text)
			if err == nil {
				_, _, err = n.admin.Apply(t.Context(), set, nil, false, "jo", "lost")
			}
			if err == nil {
				err = n.admin.SetShards(t.Context(), uint32(config.Shards), nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		newest, table := n.view.policies.now().version, n.view.table.now().version
		await.Until(t, "the edge knows what is lost", func() bool {
			return e.view.policies.now().version == newest && e.view.table.now().version == table
		})
		former := n.dir.cluster()
		stop(t, n)
		config.DataDir = filepath.Join(t.TempDir(), "restored")
		r := planned(t, file, restore.Config{DataDir: config.DataDir})
		if err := r.Write(); err != nil {
			t.Fatal(err)
		}
		n = start(t, config)
		defer stop(t, n)
		var why error
		await.Until(t, "the edge ends", func() bool {
			select {
			case why = <-e.Done():
			default:
			}
			return why != nil
		})
		if text := why.Error(); !strings.Contains(text, former) || !strings.Contains(text, r.Cluster) {
			t.Errorf("it says %s", text)
		}
		again := c.readyEdge(c.config("edge-b", ""))
		if got, want := again.view.policies.now().version, n.view.policies.now().version; got != want || got >= newest {
			t.Errorf("the next edge knows policies %d, want %d; the former cluster had %d", got, want, newest)
		}
		time.Sleep(time.Minute)
		memoryOf(t).net.Break("edge-b", "")
		memoryOf(t).net.Heal()
		await.Until(t, "the next edge is ready after its connection broke", func() bool { return again.Ready() == nil })
		select {
		case err := <-again.Done():
			t.Errorf("an edge of the same cluster ends: %v", err)
		default:
		}
	})
}

// Tokens of callers, and the edge's own, are worth at an edge what they are worth at a node, and as long.
func TestTokensAtAnEdge(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newEdges(t)
		e := c.readyEdge(c.config("edge-a", c.make("edge", map[string]any{"ops": []string{"edge"}},
			map[string]any{"ops": []string{"check"}, "policies": []string{"few", "plenty"}})))
		web := c.doors(t, e, c.make("web", map[string]any{"ops": []string{"check"}, "keys": []string{"user:*"}}))
		check := func(d *doors, policy, key string) int {
			status, _ := d.call("LimitService/Check", fmt.Sprintf(`{"entries":[{"policy":%q,"key":%q}]}`, policy, key))
			return status
		}
		await.Until(t, "the caller's token is known", func() bool { return check(web, "plenty", "user:1") == 200 })
		for _, one := range []struct {
			policy, key string
			want        int
		}{{"plenty", "user:1", 200}, {"plenty", "other", 403}, {"hot", "user:1", 503}} { // the edge's own token has no hot
			if got := check(web, one.policy, one.key); got != one.want {
				t.Errorf("%+v: %d", one, got)
			}
		}
		if status, text := web.call("TokenService/List", `{}`); status != 403 {
			t.Errorf("a call that nodes answer: %d %s", status, text)
		}
		bySocket(t, c.configs[0].DataDir, "TokenService/Revoke", map[string]any{"name": "web"})
		await.Until(t, "the caller's token is revoked", func() bool { return check(web, "plenty", "user:1") == 401 })

		root := c.doors(t, e, c.token)
		if got := check(root, "plenty", "k"); got != 200 {
			t.Errorf("before the edge's token is revoked: %d", got)
		}
		bySocket(t, c.configs[0].DataDir, "TokenService/Revoke", map[string]any{"name": "edge"})
		await.Until(t, "the edge's token is revoked", func() bool { return check(root, "plenty", "k") == 503 })
		await.Until(t, "it is not ready", func() bool { return e.Ready() != nil })

		// A node does not take an edge whose token is not good for that. Its callers hear that at once.
		memoryOf(t).net.Break("edge-a", "")
		memoryOf(t).net.Heal()
		never := c.edge(c.config("edge-b", c.make("never", map[string]any{"ops": []string{"check"}})))
		for e, why := range map[*Edge]string{e: "401", never: "does not allow edge"} {
			await.Until(t, "it says that it is refused", func() bool {
				err := e.Ready()
				return err != nil && strings.Contains(err.Error(), "it takes no edge") &&
					strings.Contains(err.Error(), why)
			})
		}
		began := time.Now()
		if got := check(root, "plenty", "k"); got != 503 || time.Since(began) > time.Second {
			t.Errorf("after it was refused: %d, in %v", got, time.Since(began))
		}
	})
}

// What is changed by hand through an edge holds for the edge's leases at once.
func TestAChangeThroughAnEdgeEndsItsLeases(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newEdges(t)
		e := c.readyEdge(c.config("edge-a", c.usual("edge")))
		d := c.doors(t, e, c.token)
		for key, change := range map[string][2]string{
			"used":    {"LimitService/Adjust", `{"policy":"hot","key":"used","setUsed":"600"}`},
			"blocked": {"LimitService/Adjust", `{"policy":"hot","key":"blocked","blockUntil":"2050-01-01T00:00:00Z"}`},
			"less":    {"PolicyService/PutOverride", `{"policy":"hot","key":"less","limits":{"hour":{"quota":"1"}}}`},
		} {
			check := func() string {
				_, text := d.call("LimitService/Check", fmt.Sprintf(`{"entries":[{"policy":"hot","key":%q}]}`, key))
				return text
			}
			await.Until(t, "a lease", func() bool { return strings.Contains(check(), `"leased":true`) })
			if status, text := d.call(change[0], change[1]); status != 200 {
				t.Fatalf("%s: %d %s", key, status, text)
			}
			if text := check(); strings.Contains(text, `"allowed":true,"decisionId"`) {
				t.Errorf("%s: %s", key, text)
			}
		}
	})
}

// A thief of an edge's token gets by it what its grants say, through the edge's way in as by any other.
func TestAThiefOfAnEdgesToken(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := newEdges(t)
		if _, err := newUpstreamOf(t, c.config("edge-z", c.make("no-edge", map[string]any{"ops": []string{"check"}}))).
			dialHop(t.Context(),
				"http://"+c.configs[0].APIAddr); err == nil || !strings.Contains(err.Error(), "does not allow edge") {
			t.Errorf("without the grant: %v", err)
		}
		up := newUpstreamOf(t, c.config("edge-a", c.make("edge", map[string]any{"ops": []string{"edge"}},
			map[string]any{"ops": []string{"check"}, "policies": []string{"plenty"}, "keys": []string{"mine*"}})))
		h := hop.New(hop.Far, up.dialHop)
		defer h.Close()
		ask := func(id shard.ID, r shard.Request) shard.Result {
			return h.Submit(t.Context(), up.addresses[0], 0, id, []shard.Request{r})[0]
		}
		entries := func(policy, key string) []shard.Entry { return []shard.Entry{{Policy: policy, Key: key, Cost: 1}} }
		if r := ask(0, shard.Request{Op: shard.Check, Namespace: "default",
			Entries: entries("plenty", "mine")}); r.Err != nil || r.Decision.Answer().Sealed == "" {
			t.Errorf("what it may do: %+v", r)
		}
		if r := ask(shard.System, shard.Request{Op: shard.Fetch, Namespace: systemNamespace,
			Document: placement.PoliciesDocument}); r.Err != nil ||
			len(r.Decision.Answer().Document.Body) == 0 {
			t.Errorf("the policies: %+v", r)
		}
		inSession := shard.Request{Op: shard.Check, Namespace: "default", Entries: entries("plenty", "mine"), Number: 7,
			Session: shard.Session{Epoch: 1, Seq: 1, Index: 1}}
		brings := shard.Request{Op: shard.Check, Namespace: "default", Entries: entries("plenty", "mine")}
		brings.Entries[0].Limits = []policy.Limit{{Name: "l", Limit: limit.Limit{Algorithm: limit.Lifetime, Quota: 1}}}
		asTally := brings
		asTally.Tally = &shard.TallyTerms{Verb: shard.TallyAdd, Amount: 1}
		for what, r := range map[string]shard.Request{
			"namespace": {Op: shard.Check, Namespace: shard.CanaryNamespace, Entries: entries("plenty", "mine")},
			"policy": {Op: shard.Tally, Namespace: "default", Tally: asTally.Tally, Entries: []shard.Entry{
				{Policy: "plenty\xff", Key: "mine", Cost: 1, Limits: shard.TallyLimits}}},
		} {
			if r := ask(0, r); r.Err == nil || r.Err.Code != shard.Invalid || !strings.Contains(r.Err.Field, what) {
				t.Errorf("a name that no caller can give: %s: %+v", what, r)
			}
		}
		for what, r := range map[string]shard.Result{
			"secrets": ask(shard.System,
				shard.Request{Op: shard.Fetch, Namespace: systemNamespace, Document: placement.SecretsDocument}),
			"a new document": ask(shard.System, shard.Request{Op: shard.Swap, Namespace: systemNamespace,
				Document: placement.PoliciesDocument, Body: []byte("{}")}),
			"another key": ask(0, shard.Request{Op: shard.Check, Namespace: "default",
				Entries: entries("plenty", "other")}),
			"a lease": ask(0, shard.Request{Op: shard.Lease, Namespace: "default", Entries: entries("plenty", "mine"),
				System: &shard.SystemTerms{Lease: &shard.LeaseTerms{Holder: "thief", Number: 1, Units: 5}}}),
			"another policy": ask(0, shard.Request{Op: shard.Check, Namespace: "default",
				Entries: entries("few", "mine")}),
			"a state":           ask(0, shard.Request{Op: shard.Get, Namespace: "default", Entries: entries("plenty", "mine")}),
			"a session":         ask(0, inSession),
			"limits":            ask(0, brings),
			"limits of a tally": ask(0, asTally),
			"a session's start": ask(0, shard.Request{Op: shard.OpenSession}),
			"hashes": ask(
				0,
				shard.Request{Op: shard.Check,
					Namespace: "hashed", Hashed: true, Entries: entries("plenty", "mine")}),
			"a refund": ask(0, shard.Request{Op: shard.Settle, Namespace: "default", Entries: entries("plenty", "mine"),
				Settlement: &shard.Settlement{Action: shard.ActionCancel, Target: shard.Target{DecidedAt: 1}}}),
			"a person's change": ask(0, shard.Request{Op: shard.SetUsed, Namespace: "default",
				Entries: entries("plenty", "mine"), Adjustment: &shard.Adjustment{Actor: "root"}}),
		} {
			if r.Err == nil || r.Err.Code != shard.Unavailable || !strings.Contains(r.Err.Message, "refuses") {
				t.Errorf("%s: %+v", what, r)
			}
		}
	})
}

func newUpstreamOf(t *testing.T, config EdgeConfig) *upstream {
	t.Helper()
	up, err := newUpstream(&config)
	if err != nil {
		t.Fatal(err)
	}
	return up
}
