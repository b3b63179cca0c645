package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
)

// clientCase is a case of testdata/cases.json, which says what its fields are.
type clientCase struct {
	Name string
	Do   struct {
		Op, ID, HoldID, DecisionID, Action string
		TTLMs                              int64
		Entries                            []*struct{ Policy, Key string }
	}
	Nodes     *int
	Refused   int
	TimeoutMs int64
	Answers   []json.RawMessage
	Asked     int
	Want      map[string]any
}

// TestCasesOfAllClients: the clients of all languages pass the cases of this file.
func TestCasesOfAllClients(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []clientCase }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for i := range file.Cases {
		c := &file.Cases[i]
		t.Run(c.Name, func(t *testing.T) { t.Parallel(); c.run(t) })
	}
}

func (c *clientCase) run(t *testing.T) {
	script := &scriptedNodes{t: t, answers: c.Answers}
	var addresses []string
	for range c.Refused {
		addresses = append(addresses, refusedAddress(t))
	}
	nodes, timeout := 1, 2*time.Minute
	if c.Nodes != nil {
		nodes = *c.Nodes
	}
	if c.TimeoutMs > 0 {
		timeout = time.Duration(c.TimeoutMs) * time.Millisecond
	}
	for range nodes {
		addresses = append(addresses, script.start(t))
	}
	limits, err := client.New(client.Config{Addresses: addresses, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer limits.Close()
	got := c.call(t, limits)
	for part, fields := range c.Want {
		if reason := missing(fields, got[part]); reason != "" {
			t.Errorf("%s%s in %v", part, reason, got)
		}
	}
	if len(got) != len(c.Want) {
		t.Errorf("got %v, want %v", got, c.Want)
	}
	asked := script.asked()
	if len(asked) != c.Asked {
		t.Errorf("the nodes were asked %d times, want %d", len(asked), c.Asked)
	}
	for _, body := range asked {
		if body != asked[0] {
			t.Errorf("%q was sent again as %q", asked[0], body)
		}
	}
}

// call makes the case's call, and returns the part of the answer that the case may want, as JSON has it.
func (c *clientCase) call(t *testing.T, limits *client.Client) map[string]any {
	ctx := context.Background()
	check := &stintv1.CheckRequest{IdempotencyId: c.Do.ID}
	for _, e := range c.Do.Entries {
		check.Entries = append(check.Entries, &stintv1.Entry{Policy: e.Policy, Key: e.Key})
	}
	var d *stintv1.Decision
	var err error
	switch c.Do.Op {
	case "check":
		d, err = limits.Check(ctx, check)
	case "reserve":
		ttl := durationpb.New(time.Duration(c.Do.TTLMs) * time.Millisecond)
		d, err = limits.Reserve(ctx, &stintv1.ReserveRequest{Check: check, Ttl: ttl})
	case "settle":
		r := &stintv1.SettleRequest{}
		text := `{"holdId":"` + c.Do.HoldID + `","` + c.Do.Action + `":{}}`
		if c.Do.DecisionID != "" {
			text = `{"decisionId":"` + c.Do.DecisionID + `","` + c.Do.Action + `":{}}`
		}
		if err := protojson.Unmarshal([]byte(text), r); err != nil {
			t.Fatal(err)
		}
		d, err = limits.Settle(ctx, r)
	case "get":
		var r *stintv1.GetResponse
		if r, err = limits.Get(ctx, &stintv1.GetRequest{Entries: check.Entries}); err == nil {
			return map[string]any{"limits": limitsOf(r.Limits)}
		}
	default:
		t.Fatalf("no operation %q", c.Do.Op)
	}
	var failure *client.Error
	switch {
	case errors.As(err, &failure):
		return map[string]any{"error": map[string]any{"code": failure.Code, "maybeApplied": failure.MaybeApplied,
			"noDecision": failure.NoDecision(), "noRoom": failure.NoRoom(), "unknownKey": failure.UnknownKey()}}
	case err != nil:
		t.Fatal(err)
	}
	return map[string]any{"decision": decisionOf(d)}
}

func decisionOf(d *stintv1.Decision) map[string]any {
	var wait any
	if d.RetryAfter != nil {
		wait = float64((d.RetryAfter.AsDuration() + time.Second - 1) / time.Second)
	}
	deniedBy := []any{}
	for _, name := range d.DeniedBy {
		deniedBy = append(deniedBy, name)
	}
	return map[string]any{
		"allowed": d.Allowed, "replayed": d.Replayed, "leased": d.Leased, "shadowDenied": d.ShadowDenied,
		"challenge": d.Outcome == stintv1.Outcome_OUTCOME_CHALLENGE, "deniedBy": deniedBy, "reason": d.Reason,
		"retryAfterSeconds": wait, "holdId": d.HoldId, "limits": limitsOf(d.Limits),
	}
}

func limitsOf(limits []*stintv1.LimitStatus) []any {
	all := []any{}
	for _, l := range limits {
		all = append(all, map[string]any{"quota": float64(l.Quota), "used": float64(l.Used),
			"remaining": float64(l.Remaining), "held": float64(l.Held)})
	}
	return all
}

// missing says which part of want got does not have: maps may have more keys than want. It returns "" if it has all.
func missing(want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		fields, _ := got.(map[string]any)
		for name, value := range want {
			if reason := missing(value, fields[name]); reason != "" {
				return "." + name + reason
			}
		}
		return ""
	case []any:
		if list, _ := got.([]any); len(list) == len(want) {
			for i := range want {
				if reason := missing(want[i], list[i]); reason != "" {
					return reason
				}
			}
			return ""
		}
	default:
		if reflect.DeepEqual(want, got) {
			return ""
		}
	}
	return " is not " + strings.TrimSpace(toJSON(want))
}

func toJSON(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// scriptedNodes give the answers of a case, in the order of the requests and whichever node is asked.
type scriptedNodes struct {
	t       *testing.T
	answers []json.RawMessage

	mu     sync.Mutex
	bodies []string
}

func (s *scriptedNodes) start(t *testing.T) (address string) {
	server := httptest.NewUnstartedServer(s)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

func (s *scriptedNodes) asked() (bodies []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies
}

func (s *scriptedNodes) next(body []byte) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, string(body))
	return s.answers[min(len(s.bodies), len(s.answers))-1]
}

func (s *scriptedNodes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Path, "ClusterService") { // the client asks in the background for the owners
		http.NotFound(w, r)
		return
	}
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	var answer struct {
		Status int
		Body   json.RawMessage
	}
	next := s.next(sent)
	if string(next) == `"drop"` {
		panic(http.ErrAbortHandler)
	}
	if err := json.Unmarshal(next, &answer); err != nil {
		s.t.Error(err)
	}
	body := []byte(answer.Body)
	if answer.Status == http.StatusOK {
		w.Header().Set("Content-Type", "application/proto")
		body = s.message(r.URL.Path, body)
	} else {
		w.Header().Set("Content-Type", "application/json") // errors of Connect are JSON
	}
	w.WriteHeader(answer.Status)
	w.Write(body)
}

// message translates a successful answer, for this client asks in Protobuf and for several checks at once.
func (s *scriptedNodes) message(path string, text []byte) []byte {
	method := path[strings.LastIndexByte(path, '/')+1:]
	answer := map[string]proto.Message{"CheckBatch": &stintv1.CheckResponse{}, "Reserve": &stintv1.ReserveResponse{},
		"Settle": &stintv1.SettleResponse{}, "Get": &stintv1.GetResponse{}}[method]
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, answer); err != nil {
		s.t.Error(err)
	}
	if one, ok := answer.(*stintv1.CheckResponse); ok {
		answer = &stintv1.CheckBatchResponse{
			Results: []*stintv1.Result{{Result: &stintv1.Result_Decision{Decision: one.Decision}}}}
	}
	b, err := proto.Marshal(answer)
	if err != nil {
		s.t.Error(err)
	}
	return b
}

// refusedAddress returns an address at which nothing listens.
func refusedAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}
