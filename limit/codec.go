package limit

import (
	"encoding/binary"
	"fmt"
)

// The encoding has no version of its own: the record that holds it has one. Numbers are unsigned varints in their
// shortest form.
//
//	State: T, A, B, number of Points; if there are Points: step, then for each Point its distance / step and its units.
//	       The distance of the first Point is T - its instant, so that the step of buckets is their width; the distance
//	       of each other Point is its instant - the one before.
//	Limit: Algorithm, Quota, Period, Count, Bucket, Initial; for a Calendar also Unit, Every, AnchorDay, WeekStart and
//	       the length and bytes of the Zone's name

// maxStateTime bounds T: a TAT may lie maxUnits microseconds after MaxTime.
const maxStateTime = uint64(MaxTime) + maxUnits

// AppendState appends the encoding of a State to dst.
func AppendState(dst []byte, s State) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.T))
	dst = binary.AppendUvarint(dst, s.A)
	dst = binary.AppendUvarint(dst, s.B)
	dst = binary.AppendUvarint(dst, uint64(len(s.Points)))
	if len(s.Points) == 0 {
		return dst
	}
	step := stepOf(s)
	dst = binary.AppendUvarint(dst, step)
	distance := uint64(s.T - s.Points[0].At)
	for i, p := range s.Points {
		if i > 0 {
			distance = uint64(p.At - s.Points[i-1].At)
		}
		dst = binary.AppendUvarint(dst, distance/step)
		dst = binary.AppendUvarint(dst, p.Units)
	}
	return dst
}

// stepOf returns the greatest common divisor of the distances between instants.
func stepOf(s State) uint64 {
	step, next := uint64(0), s.T
	for i := len(s.Points) - 1; i >= 0; i-- {
		if distance := uint64(next - s.Points[i].At); distance != step {
			step = gcd(distance, step)
		}
		next = s.Points[i].At
	}
	return step
}

// DecodeState reads a State from the front of b and returns the rest of b. It accepts only what AppendState writes for
// a State that is valid for the functions of this package. It allocates at most a few times len(b).
func DecodeState(b []byte) (State, []byte, error) {
	d := decoder{rest: b}
	s := State{T: Time(d.number("T", maxStateTime)), A: d.number("A", maxUnits), B: d.number("B", maxUnits)}
	n := d.number("number of points", maxPoints)
	if n > uint64(len(d.rest)/2) {
		d.fail("%d points in %d bytes", n, len(d.rest))
	}
	if n > 0 && d.err == nil {
		s.Points = d.points(s, int(n))
	}
	if d.err != nil {
		return State{}, nil, d.err
	}
	return s, d.rest, nil
}

// points reads n Points. Their instants must rise towards T, and their units plus A must add up to B.
func (d *decoder) points(s State, n int) []Point {
	step := d.number("step", uint64(s.T))
	if step == 0 {
		d.fail("step is 0")
		return nil
	}
	points := make([]Point, n)
	at, total := uint64(0), s.A
	for i := range points {
		distance := step * d.number("distance", uint64(s.T)/step)
		if i == 0 {
			at = uint64(s.T) - distance
		} else {
			at += distance
		}
		units := d.number("units", maxUnits)
		total += units
		if distance == 0 || at >= uint64(s.T) || units == 0 || total > maxUnits {
			d.fail("point %d of %d units at %d, %d in all, does not fit before %d", i, units, at, total, s.T)
			return nil
		}
		points[i] = Point{At: Time(at), Units: units}
	}
	s.Points = points
	if d.err == nil && (total != s.B || step != stepOf(s)) {
		d.fail("%d units in steps of %d, but the head says %d and the points %d", total, step, s.B, stepOf(s))
	}
	return points
}

// AppendLimit appends the encoding of a Limit to dst.
func AppendLimit(dst []byte, l Limit) []byte {
	dst = binary.AppendUvarint(dst, uint64(l.Algorithm))
	dst = binary.AppendUvarint(dst, l.Quota)
	dst = binary.AppendUvarint(dst, uint64(l.Period))
	dst = binary.AppendUvarint(dst, l.Count)
	dst = binary.AppendUvarint(dst, uint64(l.Bucket))
	dst = binary.AppendUvarint(dst, l.Initial)
	if l.Algorithm != Calendar {
		return dst
	}
	c := l.Cycle
	dst = binary.AppendUvarint(dst, uint64(c.Unit))
	dst = binary.AppendUvarint(dst, uint64(c.Every))
	dst = binary.AppendUvarint(dst, uint64(c.AnchorDay))
	dst = binary.AppendUvarint(dst, uint64(c.WeekStart))
	dst = binary.AppendUvarint(dst, uint64(len(c.Zone.name)))
	return append(dst, c.Zone.name...)
}

// DecodeLimit reads a Limit from the front of b and returns the rest of b. It accepts only limits that Validate
// accepts. A decoded Calendar shares the Cycle of like if the two are equal, or else at least its Zone if the names are
// equal, so that neither is built again.
func DecodeLimit(b []byte, like Limit) (Limit, []byte, error) {
	d := decoder{rest: b}
	l := Limit{
		Algorithm: Algorithm(d.number("algorithm", 255)),
		Quota:     d.number("quota", maxUnits),
		Period:    Span(d.number("period", maxUnits)),
		Count:     d.number("count", maxUnits),
		Bucket:    Span(d.number("bucket", maxUnits)),
		Initial:   d.number("initial", maxUnits),
	}
	if l.Algorithm == Calendar {
		l.Cycle = d.cycle(like.Cycle)
	}
	if d.err == nil {
		d.err = l.Validate()
	}
	if d.err != nil {
		return Limit{}, nil, d.err
	}
	return l, d.rest, nil
}

// cycle reads a Cycle, and returns like if the two are equal.
func (d *decoder) cycle(like *Cycle) *Cycle {
	var likely Cycle
	if like != nil {
		likely = *like
	}
	c := Cycle{
		Unit:      Unit(d.number("unit", 255)),
		Every:     uint16(d.number("every", 65_535)),
		AnchorDay: uint8(d.number("anchor_day", 255)),
		WeekStart: uint8(d.number("week_start", 255)),
		Zone:      d.zone(likely.Zone),
	}
	if like != nil && c == likely {
		return like
	}
	return new(c)
}

// zone reads a Zone by its name, and returns like if it has that name. It refuses the empty name: LoadZone takes it for
// UTC, but AppendLimit writes "UTC".
func (d *decoder) zone(like *Zone) *Zone {
	length := d.number("length of time_zone", maxZoneName)
	if uint64(len(d.rest)) < length {
		d.fail("time_zone of %d bytes in %d", length, len(d.rest))
	}
	if d.err != nil {
		return nil
	}
	name := d.rest[:length]
	d.rest = d.rest[length:]
	if like != nil && like.name == string(name) {
		return like
	}
	zone, err := LoadZone(string(name))
	if err != nil {
		d.fail("%w", err)
	} else if length == 0 {
		d.fail("time_zone has no name")
	}
	return zone
}

// decoder reads numbers until the first error and keeps that error.
type decoder struct {
	rest []byte // not read yet
	err  error  // once set, number returns 0
}

// number reads a varint that is at most most. name is for the error.
func (d *decoder) number(name string, most uint64) uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.rest)
	switch {
	case n <= 0:
		d.fail("%s is cut off or longer than 64 bits", name)
		return 0
	case n > 1 && d.rest[n-1] == 0:
		d.fail("%s is not in its shortest form", name)
		return 0
	case v > most:
		d.fail("%s is %d, more than %d", name, v, most)
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("limit: decode: "+format, args...)
	}
}
