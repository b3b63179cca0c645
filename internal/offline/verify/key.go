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
	shard        *shard

	mu         sync.Mutex
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
// began.
type floor struct {
	used   uint64 // of its key
	newest mark   // of its shard
	denied mark   // for a denial: the newest answer from before the time for which a denial may be repeated
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
	f := floor{used: k.seen, newest: k.shard.newestMark()}
	if k.stale > 0 {
		f.denied = k.shard.newestAt(time.Now().Add(-k.stale))
	}
	return f
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
		return finding(disordered, "%v: unit %d was admitted to an operation that began after unit %d was answered (%v)", k,
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
		return finding(underAdmitted, "%v: denied when at most %d of %d can have been admitted (%v)", k, k.possible, k.quota,
			a.place)
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
	if none := (mark{}); since.denied != none && !since.denied.place.before(a.place) {
		return finding(disordered, "%v: denied at %v, to an operation that began more than %v after an answer of %v", k,
			a.place, k.stale, since.denied.place)
	} else if since.newest != none && !since.newest.place.before(a.place) {
		k.repeats++
	}
	return nil
}

// common checks conditions on every answer that is not a copy.
func (k *key) common(a answer, since floor) error {
	if err := k.plausible(a, since); err != nil {
		return err
	}
	return k.shard.enter(mark{a.place, a.at}, since.newest)
}

func (k *key) plausible(a answer, since floor) error {
	switch {
	case a.quota != k.quota:
		return finding(wrongAnswer, "%v: answered with a quota of %d, want %d", k, a.quota, k.quota)
	case a.place.shard != k.shard.id:
		return finding(wrongAnswer, "%v: decided by shard %d, before by shard %d", k, a.place.shard, k.shard.id)
	case a.used < since.used:
		return finding(forgotten, "%v: %d used, after %d had been answered (%v, before %v)", k, a.used, since.used, a.place,
			since.newest.place)
	}
	return nil
}

// note raises the values that later answers are compared with.
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
		findings = append(findings, finding(forgotten, "%v: %d admitted for certain, but %d counted", k, k.acked, final))
	case final > k.acked+k.open:
		findings = append(findings, finding(doubled, "%v: %d counted, but %d admitted for certain and %d unknown", k, final,
			k.acked, k.open))
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

// ordered checks that units were admitted in the order of the log, and that time followed the same order.
func (k *key) ordered() error {
	var last mark
	lastUnit := 0
	for unit, m := range k.units {
		if m == (mark{}) {
			continue
		}
		forward := last.place.before(m.place) && last.at < m.at
		together := last.place == m.place && last.at == m.at
		if last != (mark{}) && !forward && !together {
			return finding(disordered, "%v: unit %d was admitted at %v (time %d), unit %d at %v (time %d)", k, lastUnit,
				last.place, last.at, unit, m.place, m.at)
		}
		last, lastUnit = m, unit
	}
	return nil
}
