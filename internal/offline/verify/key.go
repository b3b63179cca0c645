package verify

import (
	"sync"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// key is one contended counter and everything that its clients know about it.
type key struct {
	policy, name string
	quota        uint64
	stale        time.Duration // as in Target
	shards       *shards

	mu         sync.Mutex
	home       *shard  // that answered last: the slot of the key may move
	at         int64   // shard time of the newest answer
	taken      numbers // the `used` values in answers to admissions: each belongs to one admission
	acked      uint64  // admissions that were answered
	denials    uint64
	denied     time.Time // when the first denial came
	unnumbered uint64    // admissions without their unit in the answer
	repeats    uint64    // denials older than an answer that had arrived before they were requested
	possible   uint64    // operations begun and not known to have counted nothing
	open       uint64    // operations with an unknown outcome
	seen       uint64    // the highest `used` of any answer
	units      []mark    // by used: where each unit was admitted; for the order of the log
}

// floor is the state that an operation's answer must not precede: everything that was answered before the operation
// began. Any shard may answer, since slots move.
type floor struct {
	used   uint64          // of its key
	at     int64           // shard time of the newest answer of its key, which a move does not set back (G4)
	newest map[uint32]mark // by shard
	denied map[uint32]mark // for a denial: the newest answers from before the time for which a denial may be repeated
}

// numbers is a set of small numbers.
type numbers []uint64

// add reports whether n is new.
func (s *numbers) add(n uint64) bool {
	word := int(n / 64)
	for len(*s) <= word {
		*s = append(*s, 0)
	}
	was := (*s)[word]
	(*s)[word] = was | 1<<(n%64)
	return was>>(n%64)&1 == 0
}

func (k *key) String() string { return k.policy + " " + k.name }

func (k *key) entries() []*stintv1.Entry { return []*stintv1.Entry{{Policy: k.policy, Key: k.name}} }

// begin records that an operation is about to be sent, and returns the floor of its answer.
func (k *key) begin() floor {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.possible++
	f := floor{used: k.seen, at: k.at, newest: k.shards.marks((*shard).newestMark)}
	if k.stale > 0 {
		before := time.Now().Add(-k.stale)
		f.denied = k.shards.marks(func(s *shard) mark { return s.newestAt(before) })
	}
	return f
}

// where returns the shard that answered last.
func (k *key) where() *shard {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.home
}

// leave records that an operation certainly counted nothing.
func (k *key) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.possible--
}

// wonder records that an operation's outcome is unknown, or (-1) that it is now known.
func (k *key) wonder(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open += uint64(n)
}

// admit records an admission and returns a finding if the answer is wrong. If the nodes copied a request without an id,
// and an earlier copy was counted, the copy gets the answer to the earlier one. If that answer is forgotten, the copy's
// has no decision id and shows the limit's current state: then its unit has no number.
func (k *key) admit(a answer, since floor, hasID bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.acked++
	if err := k.common(a, since); err != nil {
		return err
	}
	if a.used == 0 || a.used > k.quota {
		return finding(overAdmitted, "%v: unit %d of %d was admitted (%v)", k, a.used, k.quota, a.place)
	}
	if a.replayed && a.id == "" && !hasID {
		k.unnumbered++
		k.seen = max(k.seen, a.used)
		return nil
	}
	if !k.taken.add(a.used) {
		return finding(doubled, "%v: unit %d was admitted twice, now at %v", k, a.used, a.place)
	}
	// Two operations with crossing answers may be admitted in either order. A unit answered before this operation began
	// must come before it.
	if a.used <= since.used {
		return finding(disordered, "%v: unit %d was admitted to an operation that began after unit %d was "+
			"answered (%v)", k,
			a.used, since.used, a.place)
	}
	k.note(a)
	k.units[a.used] = mark{a.place, a.at}
	return nil
}

// repeatable reports whether a denial may be a copy of an earlier one: never for a request with an id.
func (k *key) repeatable(hasID bool) bool { return k.stale > 0 && !hasID }

// deny records a denial. It is correct only if the key can be full.
func (k *key) deny(a answer, since floor, hasID bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.possible-- // it counted nothing itself
	if k.denials++; k.denials == 1 {
		k.denied = time.Now()
	}
	order := k.common
	if k.repeatable(hasID) {
		order = k.repeated
	}
	if err := order(a, since); err != nil {
		return err
	}
	if a.used != k.quota {
		return finding(wrongAnswer, "%v: denied with %d of %d used (%v)", k, a.used, k.quota, a.place)
	}
	if k.possible < k.quota {
		return finding(underAdmitted, "%v: denied when at most %d of %d can have been admitted (%v)",
			k, k.possible, k.quota, a.place)
	}
	k.note(a)
	return nil
}

// repeated checks a denial that may be a copy of an earlier one. The original was requested within the time that the
// policy allows, so it is later than every answer that had come by then. The time in the copy is that of the reply, and
// is not checked.
func (k *key) repeated(a answer, since floor) error {
	if err := k.plausible(a, since); err != nil {
		return err
	}
	none, denied, newest := mark{}, since.denied[a.place.shard], since.newest[a.place.shard]
	if denied != none && !denied.place.before(a.place) {
		return finding(disordered, "%v: denied at %v, to an operation that began more than %v after an answer of %v", k,
			a.place, k.stale, denied.place)
	} else if newest != none && !newest.place.before(a.place) {
		k.repeats++
	}
	return nil
}

// common checks conditions on every answer that is not a copy.
func (k *key) common(a answer, since floor) error {
	if err := k.plausible(a, since); err != nil {
		return err
	}
	if a.at <= since.at {
		return finding(disordered, "%v: decided at %v (time %d), to an operation that began after an answer of time %d",
			k, a.place, a.at, since.at)
	}
	s := k.shards.get(a.place.shard)
	k.at = max(k.at, a.at)
	if !a.replayed { // an answer that is repeated has its first place
		k.home = s
	}
	return s.enter(mark{a.place, a.at}, since.newest[s.id])
}

// plausible checks what even a copy of an earlier answer must meet.
func (k *key) plausible(a answer, since floor) error {
	switch {
	case a.quota != k.quota:
		return finding(wrongAnswer, "%v: answered with a quota of %d, want %d", k, a.quota, k.quota)
	case a.used < since.used:
		return finding(forgotten, "%v: %d used, after %d had been answered (%v)", k, a.used, since.used, a.place)
	}
	return nil
}

// note raises the values that later answers are compared with. It also makes k.units, so it comes before a write there.
func (k *key) note(a answer) {
	if k.units == nil {
		k.units = make([]mark, k.quota+1)
	}
	k.seen = max(k.seen, a.used)
}

// full reports whether the key has nothing left and enough denials have shown it.
func (k *key) full() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.denials >= denialsEnough && time.Since(k.denied) > denialsOver*k.stale
}

// denialsEnough is the number of denials that a key gets before another key replaces it. It also stays for at least
// denialsOver times as long as a denial may be repeated.
const denialsEnough, denialsOver = 20, 3

// settle compares the final count with the answers.
func (k *key) settle(final uint64) (findings []error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case final < k.acked:
		findings = append(findings, finding(forgotten, "%v: %d admitted for certain, but %d counted",
			k, k.acked, final))
	case final > k.acked+k.open:
		findings = append(findings, finding(doubled, "%v: %d counted, but %d admitted for certain and %d unknown",
			k, final, k.acked, k.open))
	}
	if k.acked > k.quota || final > k.quota {
		findings = append(findings, finding(overAdmitted, "%v: limit %d, admitted %d, counted %d", k, k.quota, k.acked,
			final))
	}
	if err := k.ordered(); err != nil {
		findings = append(findings, err)
	}
	return findings
}

// ordered checks that units were admitted in the order of the log, and that time followed the same order, over moves
// from shard to shard too.
func (k *key) ordered() error {
	var last mark
	lastUnit := 0
	for unit, m := range k.units {
		if m == (mark{}) {
			continue
		}
		moved := last.place.shard != m.place.shard
		forward := (moved || last.place.before(m.place)) && last.at < m.at
		together := last.place == m.place && last.at == m.at
		if last != (mark{}) && !forward && !together {
			return finding(disordered, "%v: unit %d was admitted at %v (time %d), unit %d at %v (time %d)", k, lastUnit,
				last.place, last.at, unit, m.place, m.at)
		}
		last, lastUnit = m, unit
	}
	return nil
}
