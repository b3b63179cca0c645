package shard

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// releaseStory is the log of a shard in which everything occurs that leaves a record.
type releaseStory struct {
	t     *testing.T
	s     *State
	set   *policy.Set
	now   limit.Time
	log   [][]byte
	taken int // entries at the snapshot

	level uint32 // feature level of the batches; 0: the newest
	goes  bool   // goes on after every answer, even an error
}

func newReleaseStory(t *testing.T) *releaseStory {
	t.Helper()
	set, err := policy.Parse("release.yaml", []byte(releasePolicies))
	if err != nil {
		t.Fatal(err)
	}
	return &releaseStory{t: t, s: NewState(3), set: set, now: origin}
}

func (w *releaseStory) begin() {
	w.put(EncodeEpochOpen(3, w.now))
	w.put(EncodeBatch(w.stamp(), []Put{AdoptPut(policy.Revision{Version: 1, Text: []byte(releasePolicies), Set: w.set})}))
}

const releasePolicies = `policies:
  many:
    limits:
      - {name: total, quota: 10, lifetime: {}}
  api:
    limits:
      - {name: minute, quota: 5, fixed_window: {period: 1m}}
      - {name: day, quota: 100, calendar: {unit: day, time_zone: Europe/Berlin}}
  bucket:
    limits:
      - {name: burst, quota: 20, token_bucket: {refill: 10, per: 1s}}
  jobs:
    limits:
      - {name: running, quota: 3, concurrency: {}}
  login:
    count_denied: true
    limits:
      - {name: tries, quota: 3, sliding_log: {period: 10m}}
    lockout: {after: 3, base: 1s, factor: 2, max: 1h, forgive_after: 24h, on_denied: true}
`

func (w *releaseStory) put(payload []byte) {
	w.t.Helper()
	w.log = append(w.log, payload)
	if _, err := w.s.Install(payload, uint64(len(w.log)), 1); err != nil {
		w.t.Fatal(err)
	}
}

func (w *releaseStory) Lookup(key string) (Record, bool) { return w.s.Lookup(key) }
func (w *releaseStory) Full() bool                       { return false }
func (w *releaseStory) Brimful() bool                    { return false }
func (w *releaseStory) Crowded() bool                    { return false }

// ask decides requests in one batch.
func (w *releaseStory) ask(requests ...Request) []Result {
	w.t.Helper()
	at := w.stamp()
	results, puts := Evaluate(w, w.set, requests, at)
	w.put(EncodeBatch(at, puts))
	for i, r := range results {
		if r.Err != nil && (!w.goes || r.Err.Code == 16) { // Unreadable, which 0.1.0 does not have
			w.t.Fatalf("request %d of %d: %v", i, len(requests), r.Err)
		}
	}
	if len(results) < len(requests) {
		results = append(results, w.ask(requests[len(results):]...)...)
	}
	return results
}

func (w *releaseStory) many(from, count int) {
	var requests []Request
	for i := range count {
		requests = append(requests, checkOf("many", fmt.Sprintf("u%05d", from+i), 1))
	}
	w.ask(requests...)
}

// everything performs each operation that leaves a record, on its own keys.
func (w *releaseStory) everything(name string) {
	key := func(what string) string { return name + " " + what }
	for i := range 8 {
		w.ask(checkOf("api", key("api"), 1), checkOf("bucket", key("bucket"), 3), checkOf("login", key("login"), 1))
		r := checkOf("api", key(fmt.Sprint("id ", i)), 1)
		r.ID = key(fmt.Sprint("id ", i))
		w.ask(r)
	}
	w.holds(key)
	w.tallies(key)
	entry, quota := []Entry{{Policy: "many", Key: key("changed"), Cost: 1}}, uint64(50)
	w.ask(Request{Op: SetUsed, Namespace: "default", Entries: entry, Adjustment: &Adjustment{Amount: 7, Actor: "ada", Note: "n"}},
		Request{Op: Block, Namespace: "default", Entries: []Entry{{Policy: "login", Key: key("blocked"), Cost: 1}},
			Adjustment: &Adjustment{Until: w.now + limit.Time(hour), Actor: "ada"}},
		Request{Op: PutOverride, Namespace: "default", Entries: entry, Adjustment: &Adjustment{Actor: "ada",
			Override: &policy.Override{Limits: map[string]policy.TierLimit{"total": {Quota: &quota}}}}})
	w.sessions(key)
	w.legs(key)
	w.sum()
}

func (w *releaseStory) holds(key func(string) string) {
	entries := []Entry{{Policy: "jobs", Key: key("job"), Cost: 1}, {Policy: "bucket", Key: key("job"), Cost: 2}}
	reserve := Request{Op: Reserve, Namespace: "default", Entries: entries, Hold: &HoldTerms{TTL: 5 * minute, OnExpire: policy.OnExpireCommit}}
	var held []Decision
	for range 3 {
		held = append(held, w.ask(reserve)[0].Decision)
	}
	settle := func(d *Decision, action Action) Request {
		return Request{Op: Settle, Namespace: "default", Entries: entries, Settlement: &Settlement{Action: action, TTL: hour,
			Target: Target{Hold: true, Position: d.Position, Index: d.Index, DecidedAt: d.DecidedAt}}}
	}
	w.ask(settle(&held[0], ActionCommit))
	w.ask(settle(&held[1], ActionExtend))
}

func (w *releaseStory) tallies(key func(string) string) {
	for verb := TallyVerb(1); verb <= 2; verb++ {
		w.ask(Request{Op: Tally, Namespace: "default", Entries: []Entry{{Key: key("tally"), Cost: 1, Limits: TallyLimits}},
			Tally: &TallyTerms{Verb: verb, Amount: 5, TTL: hour}})
	}
}

func (w *releaseStory) sessions(key func(string) string) {
	session := w.ask(Request{Op: OpenSession, Namespace: "default"})[0].Decision.Session()
	for number := uint64(1); number <= 5; number++ {
		r := checkOf("api", key("session"), 1)
		r.Session, r.Number, r.Retry = session, number, number == 3
		w.ask(r)
	}
}

// legs performs parts of operations on several shards: this shard is a leg of some and the home of others.
func (w *releaseStory) legs(key func(string) string) {
	for i, state := range []OperationState{OperationCommitted, OperationAborted, 0} {
		about := Operation{ID: key(fmt.Sprint("leg ", i)), Op: Check, Home: 1, Fingerprint: 7, TTL: 5 * second}
		charge := Request{Op: Charge, Namespace: "default", Operation: &about,
			Entries: []Entry{{Policy: "many", Key: key("leg"), Cost: 1}}}
		charged := w.ask(charge)[0].Decision
		if state == 0 { // it waits for home's ruling
			continue
		}
		done := about
		done.Verdict = Verdict{ID: about.ID, Home: 1, Known: true, State: state}
		done.Legs = []Leg{{Shard: 3, Allowed: true, Decision: charged.bare()}}
		w.ask(Request{Op: FinishLeg, Namespace: "default", Operation: &done})
	}
	for i, allowed := range []bool{true, false} {
		about := Operation{ID: key(fmt.Sprint("home ", i)), Op: Check, Home: 3, Fingerprint: 8, TTL: 5 * second}
		leg := Decision{Allowed: allowed, DecidedAt: w.now, Index: 1, Position: Position{Shard: 4, Epoch: 9, Seq: uint64(10 + i)}}
		about.Legs = []Leg{{Shard: 4, Allowed: allowed, Decision: leg}}
		w.ask(Request{Op: Conclude, Namespace: "default", Operation: &about, NotAfter: w.now + limit.Time(10*second),
			Entries: []Entry{{Policy: "many", Key: key("home"), Cost: 1}}})
	}
}

func releaseFile(release, what string) string {
	return filepath.Join("testdata", "releases", release+"."+what)
}

func readLog(t *testing.T, release string) (log [][]byte) {
	t.Helper()
	in := bufio.NewReader(bytes.NewReader(gunzip(t, releaseFile(release, "log.gz"))))
	for {
		length, err := binary.ReadUvarint(in)
		if err == io.EOF {
			return log
		}
		payload := make([]byte, length)
		if _, err2 := io.ReadFull(in, payload); err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		log = append(log, payload)
	}
}

func gunzip(t *testing.T, name string) []byte {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
