package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/memnet"
)

// fake is a server of three shards that counts in a map. It is exact unless a fault is set.
type fake struct {
	mu     sync.Mutex
	quota  uint64
	used   map[string]uint64
	ids    map[string]reply
	seq    map[uint32]uint64
	denied map[string]denial // by key
	checks int

	// Faults. n counts the checks that are not peeks, from 1. Each is asked once a check, and only when it could
	// strike.
	double    func(n int) bool // an admission is counted twice
	again     func(n int) bool // an admission is not counted: its unit is admitted again
	forget    func(n int) bool // ids are not remembered
	overAdmit bool             // one unit too many
	denyEarly func(n int) bool // denied while units are left
	lieOnDeny bool             // denials say that the key is full while units are left
	lose      func(n int) bool // the answer is lost after it was counted
	refuse    func(n int) bool // refused with unavailable, and not counted
	lie       func(n int) bool // refused with unavailable, but counted
	backwards func(n int) bool // shard time goes back
	stale     func(n int) bool // the place of a decision lies before that of its predecessor
	stallAt   int              // the check during which everything stalls
	stall     time.Duration
	stalls    time.Time        // until then
	reset     func(n int) bool // all counts are forgotten
	repeat    time.Duration    // not a fault where it is allowed: denials without an id are repeated for this long
	// copied is not a fault: a copy is answered that it was counted and with the units used now, without a decision id.
	copied  func(n int) bool
	mistold func(n int) bool // a copy gets the answer to another request
	// moveAt is not a fault: from that check on, all keys are on three other shards; 0: never.
	moveAt  int
	behind  bool // a fault: the time of these shards begins anew
	forks   bool // a fault: the shards before still decide each second check, by counts of their own
	forked  map[string]uint64
	unspent bool // a fault: in the end a unit of each leased key is not counted
}

// checkBody is the JSON of a request, written as a CheckRequest or a GetRequest.
type checkBody struct {
	Entries []struct{ Key string }
	Mode    string
	ID      string `json:"idempotencyId"`
}

type denial struct {
	at    reply
	asked time.Time
}

type reply struct {
	used uint64
	p    map[string]any
	at   string
}

func newFake(quota uint64) *fake {
	return &fake{quota: quota, used: map[string]uint64{}, ids: map[string]reply{}, seq: map[uint32]uint64{},
		denied: map[string]denial{}}
}

func (f *fake) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/stint.v1.LimitService/Check", f.check)
	mux.HandleFunc("/stint.v1.LimitService/Get", f.get)
	mux.HandleFunc("/stint.v1.PolicyService/List", listPolicies)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		mux.ServeHTTP(w, r)
	})
}

func listPolicies(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"policies":[{"name":"good","limits":[{"name":"a","quota":"50","fixedWindow":{"period":"86400s",`+
		`"anchor":"ANCHOR_FIRST_HIT"}}]},`+
		`{"name":"flood","denyCache":"0.250s","limits":[{"name":"a","quota":"50","lifetime":{}}]},`+
		`{"name":"epoch","limits":[{"name":"a","quota":"50","fixedWindow":{"period":"86400s",`+
		`"anchor":"ANCHOR_EPOCH"}}]},`+
		`{"name":"short","limits":[{"name":"a","quota":"50","fixedWindow":{"period":"60s",`+
		`"anchor":"ANCHOR_FIRST_HIT"}}]},`+
		`{"name":"life","limits":[{"name":"a","quota":"7","lifetime":{}}]},`+
		`{"name":"leased","lease":{"units":"10","for":"1s","share":50},`+
		`"limits":[{"name":"a","quota":"50","fixedWindow":{"period":"86400s","anchor":"ANCHOR_FIRST_HIT"}}]},`+
		`{"name":"two","limits":[{"name":"a","quota":"7","lifetime":{}},{"name":"b","quota":"7","lifetime":{}}]}]}`)
}

// serve serves in a synctest bubble until the test ends, under every name, and returns how it is dialed. Time passes
// only in checks.
func serve(t *testing.T, handler http.Handler) func(context.Context, string, string) (net.Conn, error) {
	network, server := memnet.New(), &http.Server{Handler: handler}
	here, there := network.Listen("client"), network.Listen("server")
	go server.Serve(there)
	t.Cleanup(func() { server.Close() })
	return func(context.Context, string, string) (net.Conn, error) { return here.Dial("server", time.Second) }
}

func is(fault func(int) bool, n int) bool { return fault != nil && fault(n) }

// leasedKeys is the number of keys that lessees have spent from.
func (f *fake) leasedKeys() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.used {
		if strings.Contains(key, "leased") {
			n++
		}
	}
	return n
}

// asked is the number of checks that have come.
func (f *fake) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.checks
}

func (f *fake) check(w http.ResponseWriter, r *http.Request) {
	var body checkBody
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		panic(err)
	}
	key := body.Entries[0].Key
	hash := fnv.New32()
	hash.Write([]byte(key))
	shard := hash.Sum32() % 3
	time.Sleep(time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	if body.Mode == "MODE_PEEK" {
		f.answer(w, true, false, f.used[key], f.place(shard, 0), false) // 0: no fault strikes a peek
		return
	}
	f.checks++
	n := f.checks
	if n == f.stallAt {
		f.stalls = time.Now().Add(f.stall)
	}
	stalled := time.Until(f.stalls)
	f.mu.Unlock()
	time.Sleep(stalled)
	f.mu.Lock()
	if is(f.reset, n) {
		clear(f.used)
	}
	if is(f.refuse, n) {
		fail(w, "unavailable")
		return
	}
	count := f.used
	if f.moveAt > 0 && n >= f.moveAt {
		shard, count = f.move(shard, n)
	}
	if d, ok := f.denied[key]; ok && body.ID == "" && time.Since(d.asked) < f.repeat {
		f.answer(w, false, false, f.quota, d.at, false)
		return
	}
	if old, ok := f.ids[body.ID]; ok && body.ID != "" {
		f.answer(w, true, true, old.used, old, false)
		return
	}
	room := f.quota
	if f.overAdmit {
		room++
	}
	allowed := count[key] < room && !is(f.denyEarly, n)
	f.seq[shard]++
	at := f.place(shard, n)
	used, isCopy, isMistold := count[key], false, false
	if allowed {
		used++
		count[key] = used
		switch {
		case is(f.double, n):
			count[key]++
		case is(f.again, n):
			count[key]--
		case body.ID == "" && used > 1:
			isMistold = is(f.mistold, n)
			if isCopy = isMistold || is(f.copied, n); isCopy {
				used-- // any number will do: it is not the unit's number
			}
		}
		if body.ID != "" && !is(f.forget, n) {
			f.ids[body.ID] = reply{used, at.p, at.at}
		}
	} else if f.lieOnDeny {
		used = f.quota
	}
	if !allowed {
		f.denied[key] = denial{at, time.Now()}
	}
	switch {
	case is(f.lose, n):
		fail(w, "aborted")
	case is(f.lie, n):
		fail(w, "unavailable")
	default:
		f.answer(w, allowed, isCopy, used, at, isMistold)
	}
}

// move returns the shard that decides a check after the move, and its counts.
func (f *fake) move(shard uint32, n int) (uint32, map[string]uint64) {
	if f.forks && n%2 == 0 {
		if f.forked == nil {
			f.forked = maps.Clone(f.used)
		}
		return shard, f.forked
	}
	if f.seq[shard+3] == 0 && !f.behind {
		f.seq[shard+3] = 10_000 // later than all that was decided before
	}
	return shard + 3, f.used
}

func (f *fake) place(shard uint32, n int) reply {
	seq := f.seq[shard]
	at := time.UnixMicro(int64(1_000_000 + 10*seq))
	if is(f.backwards, n) {
		at = at.Add(-time.Second)
	}
	if is(f.stale, n) {
		seq -= 5
	}
	return reply{p: map[string]any{"shard": shard, "epoch": "7", "seq": fmt.Sprint(seq)},
		at: at.UTC().Format(time.RFC3339Nano)}
}

func (f *fake) answer(w http.ResponseWriter, allowed, replayed bool, used uint64, at reply, hasID bool) {
	id := ""
	if hasID {
		id = "decision"
	}
	json.NewEncoder(w).Encode(map[string]any{"decision": map[string]any{"allowed": allowed, "replayed": replayed,
		"decisionId": id, "decidedAt": at.at, "positions": []any{at.p},
		"limits": []any{map[string]any{"quota": fmt.Sprint(f.quota), "used": fmt.Sprint(used)}}}})
}

func fail(w http.ResponseWriter, code string) {
	w.WriteHeader(http.StatusServiceUnavailable)
	json.NewEncoder(w).Encode(map[string]any{"code": code, "message": "a fault"})
}

func (f *fake) get(w http.ResponseWriter, r *http.Request) {
	var body checkBody
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := body.Entries[0].Key
	used := f.used[key]
	if f.unspent && strings.Contains(key, "leased") {
		used--
	}
	json.NewEncoder(w).Encode(
		map[string]any{"limits": []any{map[string]any{"quota": fmt.Sprint(f.quota), "used": fmt.Sprint(used)}}})
}
