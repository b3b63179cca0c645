package shard

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// newSystem returns a world of the system shard.
func newSystem(t testing.TB) *world {
	w := &world{TB: t, state: NewState(System), policies: policy.NewSet(nil), term: 1}
	w.append(EncodeEpochOpen(System, origin, LevelNewest))
	return w
}

func restoredSystem(t testing.TB, file []byte) *State {
	s, err := Restore(System, bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	audit(t, s)
	return s
}

func swapOf(name string, expect uint64, body string) Request {
	return Request{Op: Swap, Document: name, Expect: expect, Body: []byte(body)}
}

// Every Swap that was allowed has replaced the expected version: each version is assigned once.
func TestSwapIsCompareAndSet(t *testing.T) {
	t.Parallel()
	rnd := seeded(t)
	w := newSystem(t)
	version, body := map[string]uint64{}, map[string]string{}
	for i := range 500 {
		var requests []Request
		for range 1 + rnd.IntN(6) {
			name := []string{"table", "policies"}[rnd.IntN(2)]
			r := swapOf(name, version[name]+rnd.Uint64N(3)-min(1, version[name]), strings.Repeat("x", rnd.IntN(40)))
			if rnd.IntN(4) == 0 {
				r = Request{Op: Fetch, Document: name}
			}
			requests = append(requests, r)
		}
		results, puts := w.batch(origin+limit.Time(i), requests...)
		changed := map[string]bool{}
		for j, r := range requests {
			d, err := results[j].Decision, results[j].Err
			switch {
			case r.Op == Fetch:
				want := Document{Version: version[r.Document]}
				if body[r.Document] != "" {
					want.Body = []byte(body[r.Document])
				}
				if err != nil || !reflect.DeepEqual(d.Answer().Document, want) {
					t.Fatalf("fetched %+v, %v; it is %+v", d.Answer().Document, err, want)
				}
			case r.Expect != version[r.Document]:
				if err == nil || err.Code != Conflict || err.MaybeApplied() {
					t.Fatalf("%q of version %d for %d: %+v", r.Document, version[r.Document], r.Expect, results[j])
				}
			default:
				version[r.Document], body[r.Document], changed[r.Document] = r.Expect+1, string(r.Body), true
				if err != nil || !d.Allowed || d.Answer().Document.Version != r.Expect+1 || d.Index != 0 {
					t.Fatalf("%+v", results[j])
				}
			}
		}
		if len(puts) != len(changed) {
			t.Fatalf("%d effects, %d documents changed", len(puts), len(changed))
		}
		for name := range version {
			if got, err := ReadDocument(w, name); err != nil || got.Version != version[name] ||
				string(got.Body) != body[name] {
				t.Fatalf("%q is %+v, must be version %d, %q", name, got, version[name], body[name])
			}
		}
	}
}

// A node pairs the version in an answer with the body that it sent, and keeps both. So a copy of a counted swap returns
// the version that the swap made, even if another swap has replaced it since.
func TestACopyOfASwapNamesTheVersionThatItMade(t *testing.T) {
	w := newSystem(t)
	s := opened(w, origin)
	mine := inSession(swapOf("policies", 0, "mine"), s, 1, 0)
	w.batch(origin+1, mine)
	w.batch(origin+2, swapOf("policies", 1, "theirs"))
	mine.Retry = true
	results, _ := w.batch(origin+3, mine)
	if d := results[0].Decision; results[0].Err != nil || !d.Replayed || d.Answer().Document.Version != 1 {
		t.Errorf("the copy was answered %+v, %v; want version 1", d, results[0].Err)
	}
	if got, err := ReadDocument(w, "policies"); err != nil || got.Version != 2 || string(got.Body) != "theirs" {
		t.Errorf("the document is %+v", got)
	}
}

func TestBoundsOfADocument(t *testing.T) {
	w := newSystem(t)
	large, name := strings.Repeat("x", MaxDocumentBytes), strings.Repeat("n", MaxDocumentName)
	for _, c := range []struct {
		field   string
		request Request
	}{
		{"", swapOf(name, 0, large)},
		{"body", swapOf(name, 1, large+"x")},
		{"document", swapOf(name+"n", 0, "")},
		{"document", swapOf("", 0, "")},
		{"document", Request{Op: Fetch, Document: name + "n"}},
		{"entries", Request{Op: Fetch, Document: name, Entries: []Entry{{}}}},
	} {
		results, puts := w.batch(origin, c.request)
		if err := results[0].Err; c.field == "" && (err != nil || len(puts) != 1) ||
			c.field != "" && (err == nil || err.Code != Invalid || err.Field != c.field || len(puts) != 0) {
			t.Errorf("%s: %+v", c.field, results[0])
		}
	}
	at := w.next(origin)
	results, puts := Evaluate(w, w.policies, []Request{swapOf("a", 0, large), swapOf("a", 1, large),
		swapOf("b", 0, large), swapOf("c", 0, large)}, at)
	if len(results) != 3 || len(puts) != 2 {
		t.Errorf("%d answers and %d effects in an entry of %d bytes",
			len(results), len(puts), len(EncodeBatch(at, puts)))
	}
}

// Returned documents and adoptions do not change with the state, and changes to them do not affect it.
// TestAnAdoptionRemembersOnlyWhatIsInForce: however many revisions there were, a shard keeps one text, and one instant
// for each limit that it names.
func TestAnAdoptionRemembersOnlyWhatIsInForce(t *testing.T) {
	w := newSystem(t)
	var before *policy.Set
	var first int
	for version := uint64(1); version <= 100; version++ {
		p := onePolicy(lifetimeOf(version), lifetimeOf(2*version))
		p.Name, p.Limits[1].Name = fmt.Sprintf("p%03d", version), fmt.Sprintf("l%03d", version)
		set := policy.NewSet([]*policy.Policy{p})
		at := w.next(origin + limit.Time(version))
		put := Adopt(w, before, policy.Revision{Version: version, Set: set, Text: []byte("text")}, at)[0]
		w.append(EncodeBatch(at, []Put{put}))
		if before = set; version == 2 { // the first says of no limit when it has changed
			first = len(put.Value)
		} else if version > 2 && len(put.Value) != first {
			t.Fatalf("version %d takes %d bytes, the second took %d", version, len(put.Value), first)
		}
	}
	if w.state.Records() != 1 {
		t.Errorf("%d records, want 1", w.state.Records())
	}
}

func TestDocumentsAndAdoptionsAreCopies(t *testing.T) {
	w := newSystem(t)
	body := []byte("first")
	adopt := func(version uint64, text string) {
		w.append(EncodeBatch(w.next(w.state.Time()),
			[]Put{adoptPut(policy.Revision{Version: version, Text: []byte(text)}, nil)}))
	}
	if version, text, err := Adopted(w); err != nil || version != 0 || text != nil {
		t.Errorf("adopted is %d, %q", version, text)
	}
	results, _ := w.batch(origin, Request{Op: Swap, Document: "d", Body: body}, Request{Op: Fetch, Document: "d"})
	adopt(1, "first")
	clear(body)
	fetched := results[1].Decision.Answer().Document
	read, _ := ReadDocument(w, "d")
	_, adopted, _ := Adopted(w)
	for _, b := range [][]byte{fetched.Body, read.Body, adopted} {
		if string(b) != "first" {
			t.Errorf("it is %q", b)
		}
		copy(b, "other")
	}
	got, _ := ReadDocument(w, "d")
	sum := w.state.Sum()
	if _, text, _ := Adopted(w); string(got.Body) != "first" || string(text) != "first" {
		t.Errorf("the state was changed through an answer: %q, %q", got.Body, text)
	}
	if restored := restoredSystem(t, fileOf(t, w.state.Snapshot())); restored.Sum() != sum {
		t.Errorf("sum %016x came back as %016x", sum, restored.Sum())
	}
	before, _ := ReadDocument(w, "d")
	w.batch(origin, swapOf("d", 1, "third"))
	adopt(2, "third")
	if version, text, _ := Adopted(w); !bytes.Equal(before.Body, []byte("first")) || version != 2 ||
		string(text) != "third" {
		t.Errorf("%q; adopted is %d, %q", before.Body, version, text)
	}
}

// The author, time and reason of a change are recorded in the same entry; a swap that fails leaves no trace there.
func TestHistoryOfADocument(t *testing.T) {
	t.Parallel()
	w := newSystem(t)
	now := origin
	swap := func(expect uint64, who, note string) Result {
		now++
		r := swapOf("policies", expect, fmt.Sprint("after ", expect))
		r.Adjustment = &Adjustment{Actor: who, Note: note}
		results, _ := w.batch(now, r)
		return results[0]
	}
	w.batch(origin, swapOf("policies", 0, "founded"))
	long := strings.Repeat("n", MaxNote)
	for version := uint64(1); version <= historyKept+3; version++ {
		if r := swap(version, strings.Repeat("a", MaxActor), long); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if r := swap(1, "late", "over what was not seen"); r.Err == nil || r.Err.Code != Conflict {
		t.Errorf("%+v", r)
	}
	if r := swap(historyKept+4, "chatty", long+"n"); r.Err == nil || r.Err.Field != "note" {
		t.Errorf("%+v", r)
	}
	for _, s := range []Records{w, restoredSystem(t, fileOf(t, w.state.Snapshot()))} {
		d, err := ReadDocument(s, HistoryOf("policies"))
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Body) > MaxDocumentBytes/4 {
			t.Errorf("a full history has %d bytes", len(d.Body))
		}
		changes, err := DocumentChanges(d)
		if err != nil || len(changes) != historyKept {
			t.Fatalf("%d changes, %v", len(changes), err)
		}
		last := changes[historyKept-1]
		if changes[0].Version != 5 || last.Version != historyKept+4 || last.Note != long ||
			last.At != origin+historyKept+3 {
			t.Errorf("from version %d to %+v", changes[0].Version, last)
		}
	}
	if _, err := DocumentChanges(Document{Version: 1, Body: []byte{200}}); err == nil {
		t.Error("a history of garbage is read")
	}
}
