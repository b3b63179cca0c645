package shard

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/slot"
)

// dues is a State's index of the legs and rulings that need action, with the time of that action, by the key of the
// record. It is derived from the records alone, and is part of no fingerprint.
//
// There may be a million open holds, and the owner asks twice a second for the due ones; during that, nothing is
// installed. So they are also indexed by time, in pages of about an hour and lines of some seconds: only those that may
// be due are examined, and if there are too many, only as many as requested.
type dues struct {
	at    map[string]duePlace
	pages map[limit.Time]*duePage // by due >> pageBits
	legs  int                     // of the keys: those of legs
	bytes int                     // of memory for the whole index, approximately
}

// dueOwnBytes is the memory of an index entry besides the key's text: a place in a map and one in a line, with room for
// growth.
const dueOwnBytes = 160

// duePage is the keys that are due in a period of about an hour.
type duePage struct {
	lines map[limit.Time][]dueKey // by due >> lineBits
	count int
}

// dueKey is the key of a record that needs action.
type dueKey struct {
	due limit.Time
	key string
}

// duePlace is the position of a key: its due, which gives the line, and its index there.
type duePlace struct {
	due   limit.Time
	place int
}

const (
	pageBits = 32 // of microseconds: 72 minutes
	lineBits = 22 // 4.2 s
)

func newDues() *dues {
	return &dues{at: make(map[string]duePlace), pages: make(map[limit.Time]*duePage)}
}

// note updates the index for a record that was written or, with a nil value, removed. Records that need action are
// never swept. A snapshot is read before its checksum is verified, so key may be empty.
func (d *dues) note(key string, value []byte) {
	if len(key) == 0 || key[0] != legRecord && key[0] != rulingRecord {
		return
	}
	d.remove(key)
	if due := dueOf(value); due != 0 {
		d.add(key, due)
	}
}

// add adds a key that is not in the index.
func (d *dues) add(key string, due limit.Time) {
	page := d.pages[due>>pageBits]
	if page == nil {
		page = &duePage{lines: make(map[limit.Time][]dueKey)}
		d.pages[due>>pageBits] = page
	}
	line := page.lines[due>>lineBits]
	d.at[key] = duePlace{due, len(line)}
	page.lines[due>>lineBits] = append(line, dueKey{due, key})
	page.count++
	d.bytes += len(key) + dueOwnBytes
	if key[0] == legRecord {
		d.legs++
	}
}

// remove removes a key, if it is there. The last key of its line takes its place.
func (d *dues) remove(key string) {
	at, known := d.at[key]
	if !known {
		return
	}
	delete(d.at, key)
	d.bytes -= len(key) + dueOwnBytes
	page := d.pages[at.due>>pageBits]
	line := page.lines[at.due>>lineBits]
	last := len(line) - 1
	if moved := line[last]; at.place < last {
		line[at.place] = moved
		d.at[moved.key] = duePlace{moved.due, at.place}
	}
	line[last] = dueKey{}
	if page.lines[at.due>>lineBits] = line[:last]; last == 0 {
		delete(page.lines, at.due>>lineBits)
	}
	if page.count--; page.count == 0 {
		delete(d.pages, at.due>>pageBits)
	}
	if key[0] == legRecord {
		d.legs--
	}
}

// until counts the keys that are due at now, and lists at most most of them. If that is all of them, the longest due
// comes first. Otherwise the list starts at the index given by placeOf and wraps around, in the order of the lines.
func (d *dues) until(now limit.Time, most int, placeOf func(count int) int) (keys []dueKey, count int) {
	var pages []limit.Time
	for n, page := range d.pages {
		if n < now>>pageBits {
			count += page.count
			pages = append(pages, n)
		} else if n == now>>pageBits {
			for _, line := range page.until(now) {
				count += len(line)
			}
			pages = append(pages, n)
		}
	}
	slices.Sort(pages)
	skip, around := 0, most
	if count > most {
		skip = placeOf(count)
		around = min(most, count-skip)
	}
	keys = d.collect(pages, now, skip, around)
	if around < most && count > most {
		return append(keys, d.collect(pages, now, 0, most-around)...), count
	}
	slices.SortFunc(keys, func(a, b dueKey) int {
		return cmp.Or(cmp.Compare(a.due, b.due), strings.Compare(a.key, b.key))
	})
	return keys, count
}

// collect lists at most most keys of pages that are due at now, after skipping some.
func (d *dues) collect(pages []limit.Time, now limit.Time, skip, most int) (keys []dueKey) {
	for _, n := range pages {
		page := d.pages[n]
		if n < now>>pageBits && skip >= page.count {
			skip -= page.count
			continue
		}
		for _, line := range page.until(now) {
			from := min(skip, len(line))
			skip -= from
			keys = append(keys, line[from:from+min(len(line)-from, most-len(keys))]...)
			if len(keys) == most {
				return keys
			}
		}
	}
	return keys
}

// until lists the lines of the page that are due at now, earliest first. The line that contains now is cut to its due
// keys.
func (p *duePage) until(now limit.Time) (lines [][]dueKey) {
	for _, n := range slices.Sorted(maps.Keys(p.lines)) {
		switch line := p.lines[n]; {
		case n < now>>lineBits:
			lines = append(lines, line)
		case n == now>>lineBits:
			lines = append(lines, slices.DeleteFunc(slices.Clone(line), func(k dueKey) bool { return k.due > now }))
		}
	}
	return lines
}

// Duty is a message about an operation that one slot owes another, and its destination.
type Duty struct {
	To      slot.ID
	Request Request
	// Keys are the keys of the asking leg. They tell the nodes that forward the answer which keys it concerns:
	// remembered denials of these keys end with it, and no others.
	Keys []Entry
}

// OpenLegs returns how many legs wait for home's ruling, including holds.
func (s *State) OpenLegs() int { return s.due.legs }

// Duties lists the messages that this shard owes at now, at most most, the longest due first. A leg asks home for its
// ruling (ResolveHome). Home tells a leg its ruling (FinishLeg), and lets its own holds expire (ResolveHome, to
// itself). If there are more, each now selects different ones. All messages may be repeated without harm. Only the
// owner need send them. Little more is examined than is listed, however much is due, because nothing is installed in
// the meantime. A slot that is moving has no duties until one shard owns it.
func (s *State) Duties(now limit.Time, most int) (duties []Duty) {
	shown := showing(s, s.slotted)
	keys, _ := s.due.until(now, most, func(count int) int {
		// A duty to an unreachable shard stays due and grows older, so the list begins somewhere else each time.
		return int(xxhash.Sum64(binary.LittleEndian.AppendUint64(nil, uint64(now))) % uint64(count))
	})
	for _, k := range keys {
		if len(duties) >= most {
			break
		}
		if !shown.has(k.key) { //mutant:frozen-slot-does-its-duties
			continue
		}
		duties = append(duties, s.dutiesOf(k.key)...)
	}
	return duties
}

// dutiesOf returns the messages that one record requires. An unreadable record requires none, and its operation waits
// until the record can be read. Requests about the operation get the reason as their error.
func (s *State) dutiesOf(key string) []Duty {
	record, _ := s.table.Lookup(key)
	namespace, at, id := readIDKey(key)
	r := Request{Namespace: namespace, Operation: &Operation{ID: id, Home: at, Leg: at}}
	if key[0] == legRecord {
		l, err := decodeLeg(record.Value)
		if err != nil {
			return nil
		}
		return []Duty{l.ask(r)}
	}
	u, err := decodeRuling(record.Value)
	if err != nil {
		return nil
	}
	return u.tell(r)
}

// ask returns the message by which a leg asks home.
func (l *leg) ask(r Request) Duty {
	r.Op = ResolveHome
	o := r.Operation
	o.Home, o.Drawn, o.Fingerprint = l.home, l.drawn, l.fingerprint
	o.Legs = []Leg{{Slot: o.Leg, Allowed: true, Decision: l.answer.bare()}}
	return Duty{l.home, r, named(l.entries)}
}

// tell returns the messages to the legs that have not yet executed the ruling, or from home to itself about a hold.
func (u *ruling) tell(r Request) (duties []Duty) {
	r.Operation.Drawn, r.Operation.Fingerprint = u.drawn, u.fingerprint
	if u.state == OperationHeld {
		r.Op = ResolveHome
		return []Duty{{To: r.Operation.Home, Request: r}}
	}
	for i := range u.legs {
		if l := &u.legs[i]; l.pending {
			duties = append(duties, Duty{To: l.Slot, Request: u.finish(r, l)})
		}
	}
	return duties
}

// finish returns the message that tells a leg the ruling.
func (u *ruling) finish(r Request, l *ruled) Request {
	o := *r.Operation
	o.Leg, o.Legs = l.Slot, []Leg{{Slot: l.Slot, Allowed: true, Decision: l.Decision.bare()}}
	o.Verdict = Verdict{ID: o.ID, Home: o.Home, Known: true, State: u.state}
	if u.settled != nil {
		o.Verdict.Settled = new(u.settled.settlement)
		o.Verdict.Settled.Actual = l.actual
	}
	return Request{Op: FinishLeg, Namespace: r.Namespace, Operation: &o, Entries: named(l.Decision.entriesNamed())}
}

// named returns entries with the keys alone.
func named(entries []Entry) (keys []Entry) {
	for i := range entries {
		keys = append(keys, Entry{Policy: entries[i].Policy, Key: entries[i].Key, Cost: 1})
	}
	return keys
}

// bare returns only the decision's place and time.
func (d *Decision) bare() Decision {
	return Decision{Allowed: d.Allowed, DecidedAt: d.DecidedAt, Position: d.Position, Index: d.Index}
}
