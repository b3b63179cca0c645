package policy

import (
	"errors"
	"strconv"
	"strings"

	"github.com/stint-io/stint/limit"
)

const utc = "UTC"

// UsualCycle returns the usual cycle of one unit: months and years begin on their first day, weeks on Monday. Its Zone is
// not set.
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

func (d *decoder) calendar(v value) *limit.Cycle {
	f := d.fields(v, "unit", "every", "time_zone", "anchor_day", "week_start")
	d.require(v, f, "unit")
	var unit limit.Unit
	word(d, f["unit"], unitWords, &unit)
	c := UsualCycle(unit)
	small(d, f["every"], &c.Every)
	small(d, f["anchor_day"], &c.AnchorDay)
	small(d, f["week_start"], &c.WeekStart)
	c.Zone = d.zone(f["time_zone"])
	return c
}

// zone loads the zone of a field, or UTC if the field is absent. It returns nil if there is no zone of that name.
func (d *decoder) zone(v value) *limit.Zone {
	name := utc
	d.text(v, &name)
	if zone, known := d.zones[name]; known {
		return zone
	}
	zone, err := limit.LoadZone(name)
	if err != nil {
		d.fail(v.path, "%s", zoneProblem(err))
		return nil
	}
	d.zones[name] = zone
	return zone
}

// zoneProblem returns the message of a zone's error without the name of the field.
func zoneProblem(err error) string {
	var wrong *limit.FieldError
	if errors.As(err, &wrong) {
		return wrong.Message
	}
	return err.Error()
}

// zoneText returns the name of a zone as YAML text. It is quoted if it contains a character outside plainRunes.
func zoneText(name string) string {
	const plainRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/+-"
	if strings.Trim(name, plainRunes) != "" {
		return strconv.Quote(name)
	}
	return name
}
