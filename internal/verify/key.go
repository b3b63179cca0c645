package verify

import (
	"sync"
	"time"
)

// key is one contended counter and all that its clients know of it.
type key struct {
	policy, name string
	quota        uint64
	stale        time.Duration // as Target has it
	shard        *shard

	mu       sync.Mutex
	taken    numbers // the values of `used` that admissions were answered with: each belongs to one
	acked    uint64  // admissions that were answered
	denials  uint64
	denied   time.Time // when the first of them came
	repeats  uint64    // of the denials those that were older than an answer that had come before they were asked for
	possible uint64    // operations begun that are not known to have counted nothing
	open     uint64    // operations whose outcome nobody knows
	seen     uint64    // the highest `used` of any answer
	units    []mark    // by used: where it was admitted; for the order of the log
}

// floor is what an operation must not fall behind: everything that was answered before it began.
type floor struct {
	used   uint64 // of its key
	newest mark   // of its shard
	denied mark   // for a denial: what had been answered before the time for which one may be repeated
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

// begin notes that an operation is about to be sent, and answers what it must not fall behind.
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

// leave notes that an operation certainly counted nothing.
func (k *key) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.possible--
}

// wonder notes that nobody knows what became of an operation, or (-1) that it is known now.
func (k *key) wonder(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open += uint64(n)
}

// admit enters an admission and says what is wrong with it. The answer to a request that had no id and was counted by an
// earlier copy of it, which the nodes made, shows the limit as it is now: its unit has no number then.
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
	if a.replayed && !hasID {
		k.seen = max(k.seen, a.used)
		return nil
	}
	if !k.taken.add(a.used) {
		return finding(doubled, "%v: unit %d was admitted twice, now at %v", k, a.used, a.place)
	}
	// Two operations whose answers crossed may be admitted in either order; what was answered before this began is not.
	if a.used <= since.used {
		return finding(disordered, "%v: unit %d was admitted to an operation that began after unit %d was answered (%v)", k,
			a.used, since.used, a.place)
	}
	k.note(a)
	k.units[a.used] = mark{a.place, a.at}
	return nil
}

// repeatable tells whether a denial may be a copy of an earlier one: never to a request that has an id.
func (k *key) repeatable(hasID bool) bool { return k.stale > 0 && !hasID }

// deny enters a denial. It is right only if the key can be full.
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

// repeated holds what is true of a denial that may be a copy of an earlier one: that one was asked for no longer ago than the
// policy allows, so it lies behind all that had been answered by then. Its time is that of telling it, and says nothing.
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

// common holds what is true of every answer that is no copy.
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

// note raises what later answers are compared with.
func (k *key) note(a answer) {
	if k.units == nil {
		k.units = make([]mark, k.quota+1)
	}
	k.seen = max(k.seen, a.used)
}

// full reports whether the key has nothing left and many have heard so.
func (k *key) full() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.denials >= denialsEnough && time.Since(k.denied) > denialsOver*k.stale
}

// denialsEnough is how many denials a key hears before another takes its place, and denialsOver how many times as long as one of
// them may be repeated it stays at least.
const denialsEnough, denialsOver = 20, 3

// settle compares what is counted in the end with what was answered.
func (k *key) settle(final uint64) (findings []error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case final < k.acked:
		findings = append(findings, finding(forgotten, "%v: %d admitted for certain, but %d counted", k, k.acked, final))
	case final > k.acked+k.open:
		findings = append(findings, finding(doubled, "%v: %d counted, but %d admitted for certain and %d unknown", k, final, k.acked, k.open))
	}
	if k.acked > k.quota || final > k.quota {
		findings = append(findings, finding(overAdmitted, "%v: limit %d, admitted %d, counted %d", k, k.quota, k.acked, final))
	}
	if err := k.ordered(); err != nil {
		findings = append(findings, err)
	}
	return findings
}

// ordered holds that units were admitted in the order of the log, and time with them.
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
