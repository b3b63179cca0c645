package shard

import (
	"encoding/binary"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// The bits for the numbers of a meter and of a period that follow in a record.
const (
	meterSince  = 1
	meterPaused = 2

	periodCredits   = 1
	periodRecovered = 2
	periodCorrected = 4
)

// appendMeters writes the meters of a counter: their number, then for each the name, bits, and its periods. Instants
// and lengths are in seconds, and each start is counted from the end before.
func appendMeters(b []byte, meters []meter) []byte {
	b = binary.AppendUvarint(b, uint64(len(meters)))
	for i := range meters {
		m := &meters[i]
		b = appendString(b, m.name)
		b = append(b, bit(m.since != 0)*meterSince|bit(len(m.pauses) > 0)*meterPaused)
		if m.since != 0 {
			b = binary.AppendUvarint(b, uint64(m.since))
		}
		if len(m.pauses) > 0 {
			b = binary.AppendUvarint(b, uint64(len(m.pauses)))
			for _, p := range m.pauses {
				b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(p.from)), uint64(p.until))
			}
		}
		b = binary.AppendUvarint(b, uint64(len(m.periods)))
		before := limit.Time(0)
		for j := range m.periods {
			b = m.periods[j].append(b, before)
			before = m.periods[j].end
		}
	}
	return b
}

func (p *period) append(b []byte, before limit.Time) []byte {
	b = append(b, bit(p.credits != 0)*periodCredits|bit(p.recovered)*periodRecovered|bit(p.corrections != 0)*periodCorrected)
	b = binary.AppendUvarint(b, uint64(p.start-before)/1e6)
	b = binary.AppendUvarint(b, uint64(p.end-p.start)/1e6)
	b = binary.AppendUvarint(b, uint64(p.grace)/1e6)
	b = binary.AppendUvarint(b, uint64(p.keep)/1e6)
	b = binary.AppendUvarint(b, p.units)
	if p.credits != 0 {
		b = binary.AppendUvarint(b, p.credits)
	}
	if p.corrections != 0 {
		b = binary.AppendVarint(b, p.corrections)
	}
	b = binary.AppendVarint(b, p.zone)
	return binary.AppendUvarint(b, uint64(p.revised-p.start))
}

// meters reads the output of appendMeters. It need not copy the name in terms, which may be nil.
func (r *reader) meters(terms *policy.Meter) []meter {
	count := r.uvarint()
	if count == 0 || count > uint64(len(r.rest)/8) { // a meter has more than eight bytes: check before allocating
		r.failed = true
		return nil
	}
	meters := make([]meter, count)
	for i := range meters {
		m := &meters[i]
		if text := r.bytes(r.uvarint()); terms != nil && string(text) == terms.Name {
			m.name = terms.Name
		} else {
			m.name = string(text)
		}
		has := r.bits(meterSince | meterPaused)
		if has&meterSince != 0 {
			m.since = r.time()
		}
		if has&meterPaused != 0 {
			m.pauses = r.pauses()
		}
		m.periods = r.periods()
	}
	return meters
}

func (r *reader) pauses() []pause {
	pauses := make([]pause, r.count())
	for i := range pauses {
		pauses[i] = pause{r.time(), limit.Time(r.uvarint())}
		r.failed = r.failed || pauses[i].until <= pauses[i].from
	}
	r.failed = r.failed || len(pauses) == 0
	return pauses
}

func (r *reader) periods() []period {
	count := r.uvarint()
	if count == 0 || count > uint64(len(r.rest)/8) { // likewise
		r.failed = true
		return nil
	}
	periods := make([]period, count, count+1)
	before := limit.Time(0)
	for i := range periods {
		p := &periods[i]
		has := r.bits(periodCredits | periodRecovered | periodCorrected)
		p.recovered = has&periodRecovered != 0
		p.start = before + r.seconds()
		p.end = p.start + r.seconds()
		p.grace, p.keep = limit.Span(r.seconds()), limit.Span(r.seconds())
		p.units = r.uvarint()
		if has&periodCredits != 0 {
			p.credits = r.uvarint()
		}
		if has&periodCorrected != 0 {
			p.corrections = r.varint()
		}
		p.zone = r.varint()
		p.revised = p.start + r.time()
		r.failed = r.failed || p.end <= p.start || p.end > limit.MaxTime || p.units > maxBilled || p.credits > maxBilled ||
			p.corrections < -maxCorrected || p.corrections > maxCorrected || p.zone <= -minutesOfDay || p.zone >= minutesOfDay
		before = p.end
	}
	return periods
}

// seconds reads an instant or a length of whole seconds.
func (r *reader) seconds() limit.Time {
	n := r.uvarint()
	if n > uint64(limit.MaxTime)/1e6/2 {
		r.failed = true
		return 0
	}
	return limit.Time(n) * 1e6
}
