package api

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/keyhash"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

const plainKey = "ann@example.com"

var testHasher = keyhash.New([32]byte{4, 2})

// hashShop hashes the keys of namespace shop.
func hashShop(namespace string, counted bool) (*keyhash.Namespace, *shard.Error) {
	if namespace != "shop" && !counted {
		return nil, nil
	}
	return testHasher.In(namespace), nil
}

func hashOf(t *testing.T, namespace, key string) string {
	t.Helper()
	hash, err := testHasher.In(namespace).Hash(key)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func newHashingWorld(t *testing.T) *world {
	w := newWorld(t)
	w.keys = hashShop
	return w
}

// below returns what has come through keyHasher, as text.
func (w *world) below() string {
	requests := w.decider.requests()
	text, err := json.Marshal(requests)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range requests {
		text = append(text, r.Body...) // which JSON has in another form
	}
	return string(text)
}

// withKeys are requests of all procedures that name a key, by procedure.
func withKeys(w *world) map[string]string {
	const entries = `"namespace":"shop","entries":[{"policy":"per-ip","key":"` + plainKey + `"}]`
	const one = `"namespace":"shop","policy":"per-ip","key":"` + plainKey + `"`
	return map[string]string{
		stintv1connect.LimitServiceCheckProcedure:      `{` + entries + `,"explain":true}`,
		stintv1connect.LimitServiceCheckBatchProcedure: `{"checks":[{` + entries + `}]}`,
		stintv1connect.LimitServiceReserveProcedure:    `{"check":{` + entries + `}}`,
		stintv1connect.LimitServiceGetProcedure:        `{` + entries + `,"explain":true}`,
		stintv1connect.LimitServiceAdjustProcedure:     `{` + one + `,"reset":{}}`,
		stintv1connect.LimitServiceForgetProcedure:     `{"namespace":"shop","key":"` + plainKey + `"}`,
		stintv1connect.LimitServiceLeaseProcedure: `{` + one + `,"holder":"` + holderName +
			`","number":"1","units":"1"}`,
		stintv1connect.LimitServiceCorrectUsageProcedure:    `{` + one + `,"units":"1","note":"n","new":true}`,
		stintv1connect.PolicyServicePutOverrideProcedure:    `{` + one + `,"tier":"gold"}`,
		stintv1connect.PolicyServiceDeleteOverrideProcedure: `{` + one + `}`,
		stintv1connect.ObserveServiceAuditProcedure:         `{"namespace":"shop","key":"` + plainKey + `"}`,
		stintv1connect.ObserveServiceListUsageProcedure:     `{"namespace":"shop","key":"` + plainKey + `"}`,
		stintv1connect.LimitServiceCheckStreamProcedure:     "", // a stream: TestAStreamHashesKeys
		EnvoyProcedure:    "", // TestRulesHashKeys
		ExtAuthzProcedure: "", // the same
		stintv1connect.ObserveServiceTopProcedure:   "", // asks for keys, and tells those that shards have
		stintv1connect.ObserveServiceWatchProcedure: "", // not built
	}
}

// namesAKey reports whether a message has a field for a key, at any depth.
func namesAKey(m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[m.FullName()] || m.IsMapEntry() {
		return false
	}
	seen[m.FullName()] = true
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if strings.Contains(string(f.Name()), "key") && f.Kind() == protoreflect.StringKind &&
			f.Name() != "unknown_key" && f.Name() != "api_key" ||
			f.Message() != nil && namesAKey(f.Message(), seen) {
			return true
		}
	}
	return false
}

// Every procedure that takes a key hashes it before anything is decided: a new one is missing in withKeys.
func TestEveryProcedureHashesKeys(t *testing.T) {
	w := newHashingWorld(t)
	requests := withKeys(w)
	for _, procedure := range procedures(t) {
		if procedure == stintv1connect.TokenServiceCreateProcedure {
			continue // a grant has beginnings of keys, as the administrator writes them
		}
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(
			protoreflect.FullName(strings.ReplaceAll(procedure[1:], "/", ".")))
		if err != nil {
			t.Fatal(err)
		}
		if _, known := requests[procedure]; !known &&
			namesAKey(d.(protoreflect.MethodDescriptor).Input(), map[protoreflect.FullName]bool{}) {
			t.Errorf("%s takes a key: add it to withKeys", procedure)
		}
	}
	for _, procedure := range slices.Sorted(maps.Keys(requests)) {
		if requests[procedure] == "" {
			continue
		}
		w.decider.calls = nil
		status, _, body := w.post(strings.TrimPrefix(procedure, "/stint.v1."), requests[procedure])
		below := w.below()
		switch {
		case status == http.StatusNotImplemented:
			continue
		case status != http.StatusOK:
			t.Errorf("%s: %d %s", procedure, status, body)
		case strings.Contains(below, plainKey):
			t.Errorf("%s lets the key through: %s", procedure, below)
		case strings.Contains(body, hashOf(t, "shop", plainKey)):
			t.Errorf("%s tells the hash: %s", procedure, body)
		case procedure != stintv1connect.ObserveServiceAuditProcedure &&
			!strings.Contains(below, hashOf(t, "shop", plainKey)):
			t.Errorf("%s decides without the hash: %s", procedure, below)
		}
		// The guard of this test: a namespace that does not ask for it keeps its keys.
		w.decider.calls = nil
		w.post(strings.TrimPrefix(procedure, "/stint.v1."),
			strings.ReplaceAll(requests[procedure], `"shop"`, `"office"`))
		if below := w.below(); procedure != stintv1connect.ObserveServiceAuditProcedure &&
			!strings.Contains(below, plainKey) {
			t.Errorf("%s hashes keys that nobody asked to: %s", procedure, below)
		}
	}
}

// The keys that rules make of what a proxy sends are hashed like those that clients send.
func TestRulesHashKeys(t *testing.T) {
	set, err := policy.Parse("rules.yaml", []byte(`
policies: {per-ip: {limits: [{name: minute, quota: 100, fixed_window: {period: 60s}}]}}
gates: {web: {namespace: shop, trusted_proxies: [127.0.0.0/8], identity: [ip], no_match: deny, routes: [{match: {}, entries: [{policy: per-ip, key: "{ip}"}]}]}}
envoy: {edge: {namespace: shop, rules: [{match: [{ip: "*"}], entries: [{policy: per-ip, key: "{ip}"}]}]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	w := newHashingWorld(t)
	w.revision = &policy.Revision{Version: 8, Set: set.At(8)}
	const key = "203.0.113.77"
	post := func(path, body string, headers ...string) int {
		r, err := http.NewRequest(http.MethodPost, w.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Set(name, value)
		}
		status, _, _ := w.send(r)
		return status
	}
	for path, status := range map[string]int{
		"/gate/web": post("/gate/web", "", "X-Forwarded-For: "+key, "X-Original-Method: GET", "X-Original-URI: /"),
		ExtAuthzProcedure: post(ExtAuthzProcedure, `{"attributes":{"contextExtensions":{"gate":"web"},`+
			`"request":{"http":{"method":"GET","path":"/"}},`+
			`"source":{"address":{"socketAddress":{"address":"`+key+`"}}}}}`),
		EnvoyProcedure: post(EnvoyProcedure,
			`{"domain":"edge","descriptors":[{"entries":[{"key":"ip","value":"`+key+`"}]}]}`),
	} {
		if status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
	}
	if below := w.below(); strings.Contains(below, key) || !strings.Contains(below, hashOf(t, "shop", key)) ||
		strings.Count(below, hashOf(t, "shop", "ip:"+key)) < 2 {
		t.Errorf("not both keys, and nothing else, are hashed: %s", below)
	}
}

func TestAStreamHashesKeys(t *testing.T) {
	w := newHashingWorld(t)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	stream := stintv1connect.NewLimitServiceClient(&http.Client{Transport: transport}, w.url).CheckStream(t.Context())
	if err := stream.Send(&stintv1.CheckBatchRequest{Checks: []*stintv1.CheckRequest{{Namespace: "shop",
		Entries: []*stintv1.Entry{{Policy: "per-ip", Key: plainKey}}}}}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Receive()
	if err != nil || answer.Results[0].GetDecision().GetLimits()[0].Key != plainKey ||
		strings.Contains(w.below(), plainKey) {
		t.Errorf("%v, %v, %s", answer, err, w.below())
	}
	stream.CloseRequest()
	stream.CloseResponse()
}

// The parents of hashed keys are decided with them, and all keys of an answer are those that were sent, or their
// parents.
func TestParentsOfHashedKeys(t *testing.T) {
	w := newHashingWorld(t)
	w.revision.Set = familyPolicies().At(7)
	_, _, body := w.post("LimitService/Check", `{"namespace":"shop","entries":[{"policy":"product",`+
		`"key":"{acme}/a/b"}],"explain":true}`)
	r := w.decider.requests()[0]
	if len(r.Entries) != 3 || !r.Hashed {
		t.Fatalf("%+v", r)
	}
	for i, key := range []string{"{acme}/a/b", "{acme}/a", "{acme}"} {
		if got, want := r.Entries[i].Key, hashOf(t, "shop", key); got != want {
			t.Errorf("entry %d has %q, want %q", i, got, want)
		}
		if !strings.Contains(body, `"key":"`+key+`"`) || !strings.Contains(body, " of "+key+": ") {
			t.Errorf("the answer does not name %s: %s", key, body)
		}
	}
	if strings.Contains(body, r.Entries[2].Key) {
		t.Errorf("the answer has a hash: %s", body)
	}
}

// An id has the keys as they were sent, which grants are about; they are settled as they were counted, whatever the
// policies say now.
func TestSettlementsOfHashedKeys(t *testing.T) {
	k := newTokens()
	k.add(t, "web", "key=ann* ops=check,settle")
	k.add(t, "other", "key=bob* ops=check,settle")
	w := newGuardedWorld(t, k.guard)
	w.keys = hashShop
	limits := stintv1connect.NewLimitServiceClient(withToken(k.text["web"]), w.url)
	entries := []*stintv1.Entry{{Policy: "per-ip", Key: plainKey}}
	checked, err := limits.Check(t.Context(),
		connect.NewRequest(&stintv1.CheckRequest{Namespace: "shop", Entries: entries}))
	if err != nil {
		t.Fatal(err)
	}
	settle := &stintv1.SettleRequest{Target: &stintv1.SettleRequest_DecisionId{
		DecisionId: checked.Msg.Decision.DecisionId},
		Action: &stintv1.SettleRequest_Cancel{Cancel: &stintv1.Cancel{}}}
	w.keys = func(namespace string, counted bool) (*keyhash.Namespace, *shard.Error) { // switched off meanwhile
		if !counted {
			return nil, nil
		}
		return hashShop(namespace, counted)
	}
	w.decider.calls = nil
	answer, err := limits.Settle(t.Context(), connect.NewRequest(settle))
	if err != nil || answer.Msg.Decision.Limits[0].Key != plainKey {
		t.Errorf("%v, %v", answer, err)
	}
	if r := w.decider.requests()[0]; r.Entries[0].Key != hashOf(t, "shop", plainKey) || r.Settlement.Target.Hashed {
		t.Errorf("settled %+v", r)
	}
	others := stintv1connect.NewLimitServiceClient(withToken(k.text["other"]), w.url)
	if _, err := others.Settle(t.Context(),
		connect.NewRequest(settle)); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("another's key was settled: %v", err)
	}
	// Units counted before the namespace hashed its keys are settled under the keys of that time.
	plain, err := limits.Check(t.Context(),
		connect.NewRequest(&stintv1.CheckRequest{Namespace: "shop", Entries: entries}))
	if err != nil {
		t.Fatal(err)
	}
	w.keys, w.decider.calls = hashShop, nil
	settle.Target = &stintv1.SettleRequest_DecisionId{DecisionId: plain.Msg.Decision.DecisionId}
	if _, err := limits.Settle(t.Context(), connect.NewRequest(settle)); err != nil ||
		w.decider.requests()[0].Entries[0].Key != plainKey {
		t.Errorf("%v, %+v", err, w.decider.requests())
	}
}

// An extended hold gets an id that says the same of its keys.
func TestExtensionOfAHoldOnHashedKeys(t *testing.T) {
	w := newHashingWorld(t)
	limits := stintv1connect.NewLimitServiceClient(http.DefaultClient, w.url)
	held := w.sealer.Seal(shard.Target{Hold: true, Index: 1, Hashed: true}, "shop",
		[]shard.Entry{{Policy: "per-ip", Key: plainKey, Cost: 1}})
	w.decider.decide = func(r shard.Request) shard.Result {
		result := allow(r)
		result.Decision.HoldExpires = noon + 1e6
		return result
	}
	for range 2 {
		answer, err := limits.Settle(t.Context(), connect.NewRequest(&stintv1.SettleRequest{
			Target: &stintv1.SettleRequest_HoldId{HoldId: held},
			Action: &stintv1.SettleRequest_Extend{Extend: &stintv1.Extend{Ttl: durationpb.New(5 * time.Second)}}}))
		if err != nil {
			t.Fatal(err)
		}
		held = answer.Msg.Decision.HoldId
	}
	if below := w.below(); strings.Contains(below, plainKey) || len(w.decider.requests()) != 2 {
		t.Error(below)
	}
}

// A node that does not know the secret yet decides nothing, and lets no key through. Other namespaces go on, in the
// same batch too.
func TestWithoutTheSecretOfKeys(t *testing.T) {
	w := newWorld(t)
	w.keys = func(namespace string, counted bool) (*keyhash.Namespace, *shard.Error) {
		if namespace == "shop" {
			return nil, ErrKeysUnknown
		}
		return hashShop("shop", counted)
	}
	for procedure, body := range withKeys(w) {
		if body == "" || procedure == stintv1connect.ObserveServiceTopProcedure {
			continue
		}
		status, _, answer := w.post(strings.TrimPrefix(procedure, "/stint.v1."), body)
		if batch := procedure == stintv1connect.LimitServiceCheckBatchProcedure; !batch &&
			status != http.StatusServiceUnavailable ||
			!strings.Contains(answer, "unavailable") {
			t.Errorf("%s: %d %s", procedure, status, answer)
		}
	}
	if n := len(w.decider.requests()); n > 0 {
		t.Fatalf("%d requests were decided: %s", n, w.below())
	}
	deep := strings.Repeat("a/", keyhash.PartsMax) + "b"
	_, _, answer := w.post("LimitService/CheckBatch", `{"checks":[
		{"namespace":"shop","entries":[{"policy":"per-ip","key":"one"}]},
		{"namespace":"office","entries":[{"policy":"per-ip","key":"two"}]},
		{"namespace":"office","entries":[{"policy":"per-ip","key":"first"},{"policy":"per-ip","key":"`+deep+`"}]},
		{"namespace":"office","entries":[{"policy":"per-ip","key":"four"}]}]}`)
	var batch struct {
		Results []struct {
			Decision *struct{ Limits []struct{ Key string } }
			Failure  *struct{ Code, Message string }
		}
	}
	if err := json.Unmarshal([]byte(answer), &batch); err != nil || len(batch.Results) != 4 {
		t.Fatalf("%v: %s", err, answer)
	}
	r := batch.Results
	if r[0].Failure == nil || r[0].Failure.Code != "unavailable" || r[2].Failure == nil ||
		r[2].Failure.Code != "invalid_argument" ||
		!strings.Contains(r[2].Failure.Message, "entries[1].key: has more than 21 parts") || r[1].Decision == nil ||
		r[3].Decision == nil || r[1].Decision.Limits[0].Key != "two" || r[3].Decision.Limits[0].Key != "four" {
		t.Errorf("%s", answer)
	}
	if below := w.decider.requests(); len(below) != 2 || below[1].Entries[0].Key != hashOf(t, "shop", "four") {
		t.Errorf("decided %+v", below)
	}
}

// An error names the keys that were sent.
func TestErrorsNameTheKeysThatWereSent(t *testing.T) {
	w := newHashingWorld(t)
	w.revision.Set = familyPolicies().At(7)
	w.decider.decide = func(r shard.Request) shard.Result {
		return shard.Result{Err: &shard.Error{Code: shard.KeyNotFound, Field: "entries[0].key",
			Message: "of " + r.Entries[0].Key + " below " + r.Entries[1].Key}}
	}
	_, _, body := w.post("LimitService/Check", `{"namespace":"shop","entries":[{"policy":"product","key":"acme/a"}]}`)
	if !strings.Contains(body, "of acme/a below acme") {
		t.Error(body)
	}
}

func TestAStaleReadOfAHashedKey(t *testing.T) {
	w := newHashingWorld(t)
	w.stale = func(r shard.Request) (shard.Decision, time.Duration, bool) {
		if r.Entries[0].Key != hashOf(t, "shop", plainKey) {
			t.Errorf("read %+v", r)
		}
		return allow(r).Decision, time.Second, true
	}
	_, _, body := w.post("LimitService/Get", `{"namespace":"shop","staleOk":true,`+
		`"entries":[{"policy":"per-ip","key":"`+plainKey+`"}]}`)
	if !strings.Contains(body, plainKey) || len(w.decider.requests()) > 0 {
		t.Error(body)
	}
}

// A threshold that has fired is told under the key that was sent, and in words.
func TestWhatHasFiredOnAHashedKey(t *testing.T) {
	w := newHashingWorld(t)
	decide := func(r shard.Request) shard.Result {
		result := allow(r)
		result.Decision.System = &shard.SystemAnswer{Fired: []shard.FiredThreshold{
			{Policy: "per-ip", Limit: "minute", Key: r.Entries[0].Key, Units: 80, Percent: 80, Ends: noon}}}
		return result
	}
	w.decider.decide = decide
	w.stale = func(r shard.Request) (shard.Decision, time.Duration, bool) {
		return decide(r).Decision, time.Second, true
	}
	for _, stale := range []string{"false", "true"} {
		_, _, body := w.post("LimitService/Get", `{"namespace":"shop","explain":true,"staleOk":`+stale+`,`+
			`"entries":[{"policy":"per-ip","key":"`+plainKey+`"}]}`)
		var answer struct {
			Fired       []struct{ Key string }
			Explanation string
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Fired) != 1 ||
			answer.Fired[0].Key != plainKey || !strings.Contains(answer.Explanation, "Threshold 80 (80%) has fired") {
			t.Errorf("stale %s: %s, %v", stale, body, err)
		}
	}
}

// The audit log of one key has its records under the hash, and those from before the namespace hashed its keys; a list
// of all shows hashes.
func TestAuditOfHashedKeys(t *testing.T) {
	w := newHashingWorld(t)
	hash := hashOf(t, "shop", plainKey)
	w.decider.decide = func(r shard.Request) shard.Result {
		return shard.Result{Decision: shard.Decision{System: &shard.SystemAnswer{Audit: []shard.AuditRecord{
			{Namespace: "shop", Key: hash, Deed: "new"}, {Namespace: "shop", Key: plainKey, Deed: "old"},
			{Namespace: "shop", Key: "bob", Deed: "other"}}}}}
	}
	w.shards = 1
	_, _, body := w.post("ObserveService/Audit", `{"namespace":"shop","key":"`+plainKey+`"}`)
	if strings.Contains(body, hash) || !strings.Contains(body, "new") || !strings.Contains(body, "old") ||
		strings.Contains(body, "other") {
		t.Error(body)
	}
	if _, _, body = w.post("ObserveService/Audit", `{"namespace":"shop"}`); !strings.Contains(body, hash) ||
		!strings.Contains(body, "other") {
		t.Error(body)
	}
}

// Forget begins at the shard of the hash.
func TestForgetOfAHashedKey(t *testing.T) {
	w := newHashingWorld(t)
	w.shards = 64
	w.post("LimitService/Forget", `{"namespace":"shop","key":"`+plainKey+`","bills":true}`)
	first := w.decider.requests()[0]
	hash := hashOf(t, "shop", plainKey)
	if first.Shard != shard.Of(slot.Even(64), "shop", hash) || first.Adjustment.Forget != hash || first.Hashed {
		t.Errorf("%+v", first)
	}
}

// The cost of hashing keys in a check: nothing on the heap while keys stay plain.
func BenchmarkKeyEdge(b *testing.B) {
	hasher := keyHasher{Decider: quickDecider{}, keys: hashShop}
	for _, c := range []struct {
		name, namespace string
		decider         Decider
	}{{"no edge", "office", quickDecider{}}, {"plain", "office", hasher}, {"hashed", "shop", hasher}} {
		b.Run(c.name, func(b *testing.B) {
			requests := make([]shard.Request, 1)
			b.ReportAllocs()
			for b.Loop() {
				requests[0] = shard.Request{Op: shard.Check, Namespace: c.namespace,
					Entries: []shard.Entry{{Policy: "per-ip", Key: plainKey, Cost: 1}}}
				c.decider.Decide(b.Context(), requests)
			}
		})
	}
}

func TestAnEdgeForPlainKeysAllocatesNothing(t *testing.T) {
	hasher := keyHasher{Decider: quickDecider{}, keys: hashShop}
	requests := []shard.Request{{Op: shard.Check, Namespace: "office",
		Entries: []shard.Entry{{Policy: "per-ip", Key: plainKey, Cost: 1}}}}
	without := testing.AllocsPerRun(100, func() { quickDecider{}.Decide(t.Context(), requests) })
	if with := testing.AllocsPerRun(100, func() { hasher.Decide(t.Context(), requests) }); with != without {
		t.Errorf("%v allocations, without an edge %v", with, without)
	}
}
