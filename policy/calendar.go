package policy

import (
	"errors"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/stint-io/stint/limit"
)

const utc = "UTC"

var unitWords = []string{limit.Minute: "minute", limit.Hour: "hour", limit.Day: "day", limit.Week: "week",
	limit.Month: "month", limit.Year: "year"}

// UsualCycle returns the usual cycle of one unit: months and years begin on their first day, weeks on Monday. Its Zone
// is not set.
func UsualCycle(u limit.Unit) *limit.Cycle {
	c := &limit.Cycle{Unit: u, Every: 1}
	switch u {
	case limit.Month, limit.Year:
		c.AnchorDay = 1
	case limit.Week:
		c.WeekStart = 1
	}
	return c
}

// cycleFields are the periods of a calendar. Defaults depend on the unit, which is therefore read first.
func cycleFields() []field {
	fields := fieldsBy[limit.Cycle](
		"Unit", `policy:"unit,required" about:"Unit of the period."`,
		"Every", `policy:"every,told" usual:"1" about:"Length of one period in units. Absent: 1."`,
		"Zone", `policy:"time_zone,told" about:"IANA name, as in America/New_York. Absent: UTC."`,
		"AnchorDay", `policy:"anchor_day,told" about:"Day of the month, 1 to 31, on which a month or year begins."`,
		"WeekStart", `policy:"week_start,told" about:"First day of a week: 1 is Monday, 7 is Sunday. Absent: 1."`)
	usual := func(of reflect.Value) *limit.Cycle { return UsualCycle(of.Addr().Interface().(*limit.Cycle).Unit) }
	fields[2].unless = func(of reflect.Value) bool {
		zone := of.Addr().Interface().(*limit.Cycle).Zone
		return zone != nil && zone.String() == utc
	}
	fields[3].usual = func(of reflect.Value) reflect.Value { return reflect.ValueOf(usual(of).AnchorDay) }
	fields[4].usual = func(of reflect.Value) reflect.Value { return reflect.ValueOf(usual(of).WeekStart) }
	return fields
}

// finishCycle sets UTC in a calendar without a time zone.
func finishCycle(d *decoder, v value, of any) {
	if c := of.(*limit.Cycle); c.Zone == nil && !d.failed[v.path+".time_zone"] {
		d.zone(value{path: v.path}, utc, &c.Zone)
	}
}

var zoneKind = kindFor(func(d *decoder, v value, into **limit.Zone) {
	var name string
	if anyTextKind.readInto(d, v, &name); !d.failed[v.path] {
		d.zone(v, name, into)
	}
}, func(z **limit.Zone) *yaml.Node {
	if *z == nil {
		return scalar("", true)
	}
	const plainRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/+-"
	return scalar((*z).String(), strings.Trim((*z).String(), plainRunes) != "")
}, jsonSchema{"type": "string"})

// zone loads a zone once.
func (d *decoder) zone(v value, name string, into **limit.Zone) {
	zone, known := d.zones[name]
	if !known {
		var err error
		var wrong *limit.FieldError
		if zone, err = d.loadZone(name); errors.As(err, &wrong) {
			d.fail(v.path, "%s", wrong.Message)
			return
		}
		d.zones[name] = zone
	}
	*into = zone
}
