package shard

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
)

// dues is the index of a State over its legs and rulings of which something is to be done: when, by the key of the
// record. It follows from the records alone, and is part of no fingerprint.
//
// There may be a million open holds, and the owner asks twice a second what is due, while nothing is installed. So they
// stand by time too, in pages of an hour or so and lines of some seconds: only those are looked at that may be due.
type dues struct {
	at    map[string]limit.Time
	pages map[limit.Time]map[limit.Time]map[string]struct{} // by due >> pageBits, then by due >> lineBits
	legs  int
}

const (
	pageBits = 32 // of microseconds: 72 minutes
	lineBits = 22 // 4.2 s
)

func newDues() *dues {
	return &dues{at: make(map[string]limit.Time), pages: make(map[limit.Time]map[limit.Time]map[string]struct{})}
}

// note takes notice of a record that was written or, with a nil value, forgotten. Records of which something is to be
// done are never swept.
func (d *dues) note(key string, value []byte) {
	if !noteworthy(key) {
		return
	}
	d.remove(key)
	if due := dueOf(value); due != 0 {
		d.add(key, due)
	}
}

// noteworthy reports whether key is that of a record of which something may be to be done.
func noteworthy[K string | []byte](key K) bool { // a snapshot is read before its checksum is, so it may be empty
	return len(key) > 0 && (key[0] == legRecord || key[0] == rulingRecord)
}

func (d *dues) add(key string, due limit.Time) {
	d.at[key] = due
	page := d.pages[due>>pageBits]
	if page == nil {
		page = make(map[limit.Time]map[string]struct{})
		d.pages[due>>pageBits] = page
	}
	line := page[due>>lineBits]
	if line == nil {
		line = make(map[string]struct{})
		page[due>>lineBits] = line
	}
	line[key] = struct{}{}
	if key[0] == legRecord {
		d.legs++
	}
}

func (d *dues) remove(key string) {
	due, known := d.at[key]
	if !known {
		return
	}
	delete(d.at, key)
	page := d.pages[due>>pageBits]
	line := page[due>>lineBits]
	if delete(line, key); len(line) == 0 {
		delete(page, due>>lineBits)
	}
	if len(page) == 0 {
		delete(d.pages, due>>pageBits)
	}
	if key[0] == legRecord {
		d.legs--
	}
}

// until lists what is due at now, in no order.
func (d *dues) until(now limit.Time) (keys []string) {
	for n, page := range d.pages {
		if n > now>>pageBits {
			continue
		}
		for n, line := range page {
			if n > now>>lineBits {
				continue
			}
			for key := range line {
				if d.at[key] <= now {
					keys = append(keys, key)
				}
			}
		}
	}
	return keys
}

// Duty is a message that one shard owes another about an operation, and where it goes.
type Duty struct {
	To      ID
	Request Request
}

// OpenLegs counts the legs that wait for home's ruling, and the holds among them.
func (s *State) OpenLegs() int { return s.due.legs }

// Duties lists what this shard has to tell or ask others at now, the longest due first, at most so many: a leg asks home
// for its ruling (ResolveHome), home tells a leg what it has ruled (FinishLeg) and has its own holds expire
// (ResolveHome, to itself). When there are more, each now gives others of them. All of it is done a second time without
// harm. Only the owner need do it.
func (s *State) Duties(now limit.Time, most int) (duties []Duty) {
	keys := s.due.until(now)
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.due.at[a], s.due.at[b]), strings.Compare(a, b))
	})
	if len(keys) > most {
		// What is owed to a shard that is away stays due, and grows older: so the list begins somewhere else each time.
		first := int(xxhash.Sum64(binary.LittleEndian.AppendUint64(nil, uint64(now))) % uint64(len(keys)))
		keys = append(keys[first:], keys[:first]...)
	}
	for _, key := range keys {
		if len(duties) >= most {
			break
		}
		duties = append(duties, s.dutiesOf(key)...)
	}
	return duties
}

func (s *State) dutiesOf(key string) []Duty {
	record, _ := s.table.lookup(key)
	namespace, id := readOperationKey(key)
	r := Request{Namespace: namespace, Operation: &Operation{ID: id, Home: s.id, Leg: s.id}}
	if key[0] == legRecord {
		l, err := decodeLeg(record.Value)
		if err != nil {
			panic(err) // records are written by this package and guarded by checksums
		}
		return []Duty{l.ask(r)}
	}
	u, err := decodeRuling(record.Value)
	if err != nil {
		panic(err) // as above
	}
	return u.tell(r, s.id)
}

// ask is what a leg asks home.
func (l *leg) ask(r Request) Duty {
	r.Op = ResolveHome
	o := r.Operation
	o.Home, o.Drawn, o.Fingerprint = l.home, l.drawn, l.fingerprint
	o.Legs = []Leg{{Shard: o.Leg, Allowed: true, Decision: l.answer.bare()}}
	return Duty{l.home, r}
}

// tell is what home says to the legs that have not yet done what was ruled, or to itself about a hold.
func (u *ruling) tell(r Request, home ID) (duties []Duty) {
	r.Operation.Drawn, r.Operation.Fingerprint = u.drawn, u.fingerprint
	if u.state == OperationHeld {
		r.Op = ResolveHome
		return []Duty{{home, r}}
	}
	for i := range u.legs {
		if l := &u.legs[i]; l.pending {
			duties = append(duties, Duty{l.Shard, u.finish(r, l)})
		}
	}
	return duties
}

// finish is the message by which a leg hears the ruling.
func (u *ruling) finish(r Request, l *ruled) Request {
	o := *r.Operation
	o.Leg, o.Legs = l.Shard, []Leg{{Shard: l.Shard, Allowed: true, Decision: l.Decision.bare()}}
	o.Verdict = Verdict{ID: o.ID, Home: o.Home, Known: true, State: u.state}
	if u.settled != nil {
		o.Verdict.Settled = new(u.settled.settlement)
		o.Verdict.Settled.Actual = l.actual
	}
	return Request{Op: FinishLeg, Namespace: r.Namespace, Operation: &o}
}

// bare is the decision's place and time alone.
func (d *Decision) bare() Decision {
	return Decision{Allowed: d.Allowed, DecidedAt: d.DecidedAt, Position: d.Position, Index: d.Index}
}
