package decisions

import (
	"fmt"
	"sync"
	"testing"
)

func event(kind Kind, policy, key string) *Record {
	return &Record{Kind: kind, Outcome: string(kind), Namespace: "default",
		Entry: Entry{Policy: policy, Key: key, Cost: 1}, Allowed: kind != Denied}
}

// tell is what an answering node does with a decision.
func tell(b *Bus, e *Record) {
	if !b.Listening() {
		return
	}
	if watched, weight := b.draw(e.Kind, e.Policy); watched || weight > 0 {
		b.Put(e, weight)
	}
}

// Each reader gets what its filter selects. Of several keys one is enough, and policy and key must be those of the same
// one.
func TestAReaderGetsWhatItsFilterSelects(t *testing.T) {
	b := NewBus("n", nil)
	two := event(Denied, "login", "user:1")
	two.Others = []Entry{{Policy: "ip", Key: "10.0.0.1"}}
	elsewhere := event(Denied, "login", "user:1")
	elsewhere.Namespace = "shop"
	all := []*Record{two, event(Allowed, "login", "user:12"), event(ShadowDenied, "ip", "10.0.0.2"),
		event(Settled, "login", "user:2"), elsewhere}
	for name, c := range map[string]struct {
		filter Filter
		want   []int
	}{
		"all":             {Filter{}, []int{0, 1, 2, 3}},
		"a policy":        {Filter{Policies: []string{"ip", "web"}}, []int{0, 2}},
		"a key":           {Filter{Key: "user:1"}, []int{0}},
		"a prefix":        {Filter{KeyPrefix: "user:1"}, []int{0, 1}},
		"another's key":   {Filter{Policies: []string{"ip"}, Key: "user:1"}, nil},
		"kinds":           {Filter{Kinds: []Kind{Denied, Settled}}, []int{0, 3}},
		"kind and prefix": {Filter{Kinds: []Kind{Allowed}, KeyPrefix: "user"}, []int{1}},
	} {
		c.filter.Namespace = "default"
		r := b.Open(&c.filter)
		for _, e := range all {
			tell(b, e)
		}
		got, missed := r.Take()
		ok := len(got) == len(c.want) && missed == 0
		for i := range c.want {
			ok = ok && got[i] == all[c.want[i]]
		}
		if !ok {
			t.Errorf("%s: %d events, want %v", name, len(got), c.want)
		}
		r.Close()
	}
	if b.Listening() {
		t.Error("a bus without readers listens")
	}
}

// A slow reader loses the oldest events and gets their number; the others lose nothing.
func TestASlowReaderLosesTheOldest(t *testing.T) {
	b := NewBus("n", nil)
	slow, quick := b.Open(&Filter{Namespace: "default"}), b.Open(&Filter{Namespace: "default"})
	seen := 0
	for i := range 3*Ring + 7 {
		tell(b, event(Allowed, "p", fmt.Sprint(i)))
		if i%100 == 0 {
			some, missed := quick.Take()
			if seen += len(some); missed > 0 {
				t.Fatal("the quick reader missed", missed)
			}
		}
	}
	some, _ := quick.Take()
	if seen += len(some); seen != 3*Ring+7 {
		t.Errorf("the quick reader got %d", seen)
	}
	slow.Miss(5) // on another node
	got, missed := slow.Take()
	if len(got) != Ring || missed != 2*Ring+7+5 || got[0].Key != fmt.Sprint(2*Ring+7) ||
		got[Ring-1].Key != fmt.Sprint(3*Ring+6) {
		t.Errorf("%d events from %s to %s, %d missed", len(got), got[0].Key, got[len(got)-1].Key, missed)
	}
	if got, missed := slow.Take(); len(got) != 0 || missed != 0 {
		t.Errorf("then %d events, %d missed", len(got), missed)
	}
	select {
	case <-slow.Ready():
	default:
		t.Error("nobody woke the reader")
	}
}

func TestReadersComeAndGoWhileDecisionsAreTold(t *testing.T) {
	b := NewBus("n", nil)
	var telling, reading sync.WaitGroup
	stop := make(chan struct{})
	telling.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				tell(b, event(Denied, "p", "k"))
			}
		}
	})
	for range 4 {
		reading.Go(func() {
			for range 50 {
				r := b.Open(&Filter{Namespace: "default"})
				<-r.Ready()
				r.Take()
				r.Close()
			}
		})
	}
	reading.Wait()
	close(stop)
	telling.Wait()
	if b.Listening() {
		t.Error("the readers have closed, and somebody listens")
	}
}

// A record that no reader wants is not even made.
func TestOnlyWantedKindsAreDrawn(t *testing.T) {
	b := NewBus("n", nil)
	r := b.Open(&Filter{Namespace: "default", Kinds: []Kind{Denied, "newer"}})
	defer r.Close()
	for kind, want := range map[Kind]bool{Denied: true, Allowed: false, Settled: false, "newer": false} {
		if watched, weight := b.draw(kind, "p"); watched != want || weight != 0 {
			t.Errorf("%s: %v, weight %d", kind, watched, weight)
		}
	}
}

func TestABatchFitsIntoAMessage(t *testing.T) {
	var all []*Record
	for range 40 {
		e := event(Denied, "p", string(make([]byte, 512)))
		for range 31 {
			e.Others = append(e.Others, e.Entry)
		}
		all = append(all, e)
	}
	n, batches := 0, 0
	for rest := all; len(rest) > 0; batches++ {
		var batch []*Record
		batch, rest = Cut(rest)
		n += len(batch)
		if size := sizeAsJSON(t, &Batch{Events: batch}); size > 2<<20 {
			t.Errorf("a batch of %d bytes", size)
		}
	}
	if n != len(all) || batches < 4 {
		t.Errorf("%d events in %d batches", n, batches)
	}
	if batch, rest := Cut(nil); batch != nil || rest != nil {
		t.Error("nothing is cut into", batch, rest)
	}
}

func TestWithoutListenersADecisionAllocatesNothing(t *testing.T) {
	e := event(Denied, "p", "k")
	for name, b := range map[string]*Bus{"no bus": nil, "nobody": NewBus("n", nil)} {
		if n := testing.AllocsPerRun(100, func() { tell(b, e) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
