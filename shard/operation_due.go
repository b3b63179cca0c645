package shard

import (
	"slices"

	"github.com/stint-io/stint/limit"
)

// dues is the index of a State over its legs and rulings of which something is to be done: when, by the key of the
// record. It follows from the records alone, and is part of no fingerprint.
type dues map[string]limit.Time

// note takes notice of a record that was written or, with a nil value, forgotten. Records of which something is to be
// done are never swept.
func (d dues) note(key string, value []byte) {
	if key == "" || key[0] != legRecord && key[0] != rulingRecord { // a snapshot is read before its checksum is
		return
	}
	if due := dueOf(value); due != 0 {
		d[key] = due
	} else {
		delete(d, key)
	}
}

// Duty is a message that one shard owes another about an operation, and where it goes.
type Duty struct {
	To      ID
	Request Request
}

// OpenLegs counts the legs that wait for home's ruling, and the holds among them.
func (s *State) OpenLegs() (count int) {
	for key := range s.due {
		if key[0] == legRecord {
			count++
		}
	}
	return count
}

// Duties lists what this shard has to tell or ask others at now, the longest due first, at most so many: a leg asks home
// for its ruling (ResolveHome), home tells a leg what it has ruled (FinishLeg) and has its own holds expire
// (ResolveHome, to itself). All of it is done a second time without harm. Only the owner need do it.
func (s *State) Duties(now limit.Time, most int) (duties []Duty) {
	var keys []string
	for key, due := range s.due {
		if due <= now {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		if s.due[a] != s.due[b] {
			return int(max(-1, min(1, s.due[a]-s.due[b])))
		}
		return slices.Compare([]byte(a), []byte(b))
	})
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
