package shard

import (
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
	"github.com/stint-io/stint/shard/table"
)

// ReadUsage reads bills of a shard, in pages. It decides nothing and leaves no record.
//
// A page shows everything that was decided up to its Through, and nothing later: the contents of the log and the
// owner's decisions since, with the holds ended that have expired by then. So a period that ends by Through has its
// figures, even if no request has touched the key; from final on they change only by corrections.

// Usage is one period of one key's meter. All instants are shard time.
type Usage struct {
	Namespace, Policy, Meter, Key string
	Start, End                    limit.Time // [Start, End)
	Final                         limit.Time // from this instant the figures change only by Corrections
	Units                         uint64     // admitted less given back before Final
	Credits                       uint64     // given back in this period, of periods that were final
	Corrections                   int64      // added by hand; negative if taken away
	Revision                      uint64     // it grows whenever the figures change, also across a restore
	Recovered                     bool       // a restore from a backup has lost a part
}

// UsageQuery selects periods; "" is all.
type UsageQuery struct {
	Policy, Key string
	// Starts is a year, a month or a day, as in "2026-10". It selects the periods that start in it, in the zone that
	// their meter had then.
	Starts string
	From   UsagePlace // where to continue: the Next of the page before
}

// UsagePlace is where a page begins. The zero value is the beginning of the shard, and as a Next its end.
type UsagePlace struct {
	Place uint64 // of a scan
	After string // the last record of the page before, at that place; may be empty
}

// UsagePage is a part of a shard's periods. Those of a key are together, oldest first.
type UsagePage struct {
	Periods []Usage
	// Unreadable are the keys, each with namespace and policy, with records that this version cannot read, so that the
	// page lacks their periods. A query for one such key fails.
	Unreadable []Usage
	Next       UsagePlace // where the next page begins
	Through    limit.Time // everything that was decided up to this instant is in the figures
}

// The bounds of a page: what the owner of a shard reads in about a millisecond, and what fits into a frame.
const (
	usageScanned = 2048
	usageBytes   = 64 << 10
)

// UsageRequest returns a request to one shard for periods of a namespace.
func UsageRequest(namespace string, id ID, q UsageQuery) Request {
	return Request{Op: ReadUsage, Namespace: namespace, Shard: id, System: &SystemTerms{Usage: &q}}
}

func (q *UsageQuery) code(c *MessageCodec) {
	c.Text(&q.Policy, &q.Key, &q.Starts)
	q.From.code(c)
}

func (p *UsagePlace) code(c *MessageCodec) {
	c.Uint64(&p.Place)
	c.Text(&p.After)
}

// StartsProblem returns the problem of a UsageQuery's Starts, as text that follows the name of the field, or "".
func StartsProblem(starts string) string {
	for _, layout := range []string{"2006", "2006-01", time.DateOnly} {
		if _, err := time.Parse(layout, starts); err == nil {
			return ""
		}
	}
	return "must be a year, a month or a day, as in 2026, 2026-10 or 2026-10-31"
}

// usage answers ReadUsage.
func (b *batch) usage(r *Request) Result {
	q := r.systemTerms().Usage
	if q == nil {
		return Result{Err: Invalidf("system", "is no query for usage that this version knows: run a newer one")}
	}
	mark, err := b.restored()
	if err != nil {
		return Result{Err: err}
	}
	// Earlier requests of this batch, which are not in the view, were decided now. Everything decided before is in it.
	//mutant:page-claims-its-own-batch 2
	u := usageReader{UsageQuery: *q, namespace: r.Namespace, policies: b.policies, mark: mark,
		shown: showing(b.view, b.slotted), page: UsagePage{Through: b.at.Now - 1}}
	if err := u.readAll(b.view); err != nil {
		return Result{Err: err}
	}
	return b.answerOf(SystemAnswer{Usage: &u.page, Slots: slotsServed(b.view, b.slotted, &b.at)})
}

// usageReader reads one page.
type usageReader struct {
	UsageQuery
	namespace string
	policies  *policy.Set
	mark      *restoreMark
	shown     *shownSlots
	page      UsagePage // counters are read as of its Through, which is set before
}

// readAll adds the selected periods, up to the bounds of a page. A key of a policy has one record; otherwise there may
// be any number of them.
func (u *usageReader) readAll(view View) *Error {
	if u.Policy != "" && u.Key != "" && u.From == (UsagePlace{}) {
		key := appendCounterKey(nil, u.namespace, u.Policy, u.Key)
		if record, found := view.Lookup(string(key)); found {
			return u.read(key, record)
		}
		return nil
	}
	bytes := 0
	for key, record := range u.From.page(view, &u.page.Next, func() bool { return bytes > usageBytes }) {
		before := len(u.page.Periods) + len(u.page.Unreadable)
		if err := u.read(key, record); err != nil {
			return err
		}
		bytes += (len(u.page.Periods) + len(u.page.Unreadable) - before) * (len(key) + 64)
	}
	return nil
}

// page yields the records of a page that begins at p. It ends before the next record when full returns true, or at the
// bound on records. It sets next to the beginning of the following page, and leaves it unchanged at the end of the
// shard.
func (p UsagePlace) page(records Records, next *UsagePlace, full func() bool) iter.Seq2[[]byte, Record] {
	return func(yield func([]byte, Record) bool) {
		scanned := 0
		var last uint64
		var lastKey []byte
		for key, record := range records.Scan(p.Place) {
			place := table.Place(keyLayout{}, key)
			if place == p.Place && string(key) <= p.After {
				continue
			}
			if scanned++; scanned > usageScanned || full() {
				if next.Place = place; place == last {
					next.After = string(lastKey)
				}
				return
			}
			last, lastKey = place, append(lastKey[:0], key...)
			if !yield(key, record) {
				return
			}
		}
	}
}

// read adds the periods of a record.
func (u *usageReader) read(key []byte, record Record) *Error {
	if len(key) == 0 { // otherwise the listing would be called complete without the records after it
		return unreadable("key", "what a policy has billed", ErrDiverged)
	}
	if !isCounter(key, record, counterMeters, u.page.Through) {
		return nil
	}
	if !u.shown.has(string(key)) { //mutant:billed-by-both-shards
		return nil
	}
	namespace, name, its, _ := readKeyOf(key)
	if string(namespace) != u.namespace || u.Policy != "" && string(name) != u.Policy ||
		u.Key != "" && string(its) != u.Key {
		return nil
	}
	c := counter{key: string(key), mark: u.mark}
	c.policy = policyAtKey(u.policies, c.key)
	if err := c.decode(record.Value, nil); err != nil {
		if u.Key != "" {
			return unreadable("key", "what a policy has billed", err)
		}
		u.page.Unreadable = append(u.page.Unreadable,
			Usage{Namespace: u.namespace, Policy: string(name), Key: string(its)})
		return nil
	}
	c.expire(u.page.Through) //mutant:reader-leaves-holds-open
	c.meters = c.meters.tidy(&c, u.page.Through)
	for i := range c.meters {
		m := &c.meters[i]
		for j := range m.periods {
			if p := &m.periods[j]; u.Starts == "" || p.startsIn(u.Starts) {
				one := m.usage(p)
				one.Namespace, one.Policy, one.Key = u.namespace, string(name), string(its)
				u.page.Periods = append(u.page.Periods, one)
			}
		}
	}
	return nil
}

// usage returns a period for readers, without the names of its namespace, policy and key.
func (m *meter) usage(p *period) Usage {
	return Usage{
		Meter:       m.name,
		Start:       p.start,
		End:         p.end,
		Final:       p.final(),
		Units:       p.units,
		Credits:     p.credits,
		Corrections: p.corrections,
		Revision:    uint64(p.revised),
		Recovered:   p.recovered,
	}
}

// code leaves out the namespace, which the request has.
func (p *UsagePage) code(c *MessageCodec) {
	codec.Int(&c.Codec, &p.Through)
	p.Next.code(c)
	var before Usage
	codec.List(&c.Codec, &p.Periods, math.MaxInt, func(u *Usage) {
		same, corrected := u.Policy == before.Policy && u.Key == before.Key, u.Corrections != 0
		if c.Flags(&u.Recovered, &same, &corrected); !same {
			c.Text(&u.Policy, &u.Key)
		} else if c.Reading() {
			u.Policy, u.Key = before.Policy, before.Key
		}
		c.Text(&u.Meter)
		long, open := u.End-u.Start, u.Final-u.End
		codec.Int(&c.Codec, &u.Start)
		codec.Int(&c.Codec, &long)
		if codec.Int(&c.Codec, &open); c.Reading() {
			u.End, u.Final = u.Start+long, u.Start+long+open
		}
		c.Uint64(&u.Units, &u.Credits, &u.Revision)
		if corrected {
			codec.Int(&c.Codec, &u.Corrections)
		}
		before = *u
	})
	codec.List(&c.Codec, &p.Unreadable, math.MaxInt, func(u *Usage) { c.Text(&u.Policy, &u.Key) })
}

// UsageOf reads the page in the answer to a UsageRequest for a namespace.
func UsageOf(namespace string, d *Decision) (UsagePage, error) {
	if d.System == nil || d.System.Usage == nil {
		return UsagePage{}, errors.New("shard: an answer has no page of usage")
	}
	p := *d.System.Usage
	p.Periods, p.Unreadable = slices.Clone(p.Periods), slices.Clone(p.Unreadable)
	for i := range p.Periods {
		p.Periods[i].Namespace = namespace
	}
	for i := range p.Unreadable {
		p.Unreadable[i].Namespace = namespace
	}
	return p, nil
}
