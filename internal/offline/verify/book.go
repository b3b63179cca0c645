package verify

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// book records the findings and the open questions.
type book struct {
	mu       sync.Mutex
	random   *rand.Rand // draws the sample
	count    map[kind]int
	evidence []string
	codes    map[string]*Trouble // by name of the code
	open     []*operation        // operations with ids and an unknown outcome
	replays  []replay            // a sample of the admissions with ids
	offered  int                 // admissions with ids
}

// replay is an admission that must get the same answer when it is requested again.
type replay struct {
	operation *operation
	answer    answer    // the first one
	when      time.Time // it came
}

const (
	evidenceMax = 20
	replaysMax  = 2_000
)

// find records a finding; nil is ignored.
func (b *book) find(err error) {
	if err == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count == nil {
		b.count = map[kind]int{}
	}
	k := wrongAnswer
	var f *found
	if errors.As(err, &f) {
		k = f.kind
	}
	b.count[k]++
	if len(b.evidence) < evidenceMax {
		b.evidence = append(b.evidence, err.Error())
	}
}

func (b *book) total() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, count := range b.count {
		n += count
	}
	return n
}

// code records an attempt without a decision.
func (b *book) code(a answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.codes == nil {
		b.codes = map[string]*Trouble{}
	}
	name := a.code
	if a.code == "connection" && a.fate == refused {
		name = "refused connection"
	} else if a.code == "connection" {
		name = "broken connection"
	}
	t := b.codes[name]
	if t == nil {
		t = &Trouble{Example: a.message}
		b.codes[name] = t
	}
	t.Attempts++
}

func (b *book) leaveOpen(o *operation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = append(b.open, o)
}

// remember keeps a uniform sample of the admissions with ids.
func (b *book) remember(o *operation, a answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offered++
	kept := replay{o, a, time.Now()}
	if len(b.replays) < replaysMax {
		b.replays = append(b.replays, kept)
	} else if at := b.random.IntN(b.offered); at < replaysMax {
		b.replays[at] = kept
	}
}
