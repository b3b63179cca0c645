package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/stint-io/stint/limit"
)

// Threshold is a use of a limit at which an event is fired, once in each window of each key. It denies nothing. Either
// Percent or Units is set.
type Threshold struct {
	Percent uint32 // of the quota in force for the key: 1 to 1000
	Units   uint64 // 1 to limit.MaxQuota
}

// thresholdPercentMax bounds a threshold in percent. A debt may exceed the quota.
const thresholdPercentMax = 1000

// Of returns the threshold in units under a quota, rounded up, or 0 if the quota is 0.
func (t Threshold) Of(quota uint64) uint64 {
	if t.Percent == 0 {
		return t.Units
	}
	return (quota*uint64(t.Percent) + 99) / 100 // no quota is so large that this overflows
}

// String returns the threshold as written in a file: "80%" or "500".
func (t Threshold) String() string {
	if t.Percent != 0 {
		return strconv.FormatUint(uint64(t.Percent), 10) + "%"
	}
	return strconv.FormatUint(t.Units, 10)
}

// thresholdKind is a number of units, or a percentage.
var thresholdKind = kindFor(readThreshold, func(t *Threshold) *yaml.Node { return scalar(t.String(), false) },
	jsonSchema{"type": []string{"integer", "string"}, "minimum": 1,
		"pattern": "^([1-9][0-9]*%|[0-9]+(_[0-9]+)+)$"})

func readThreshold(d *decoder, v value, into *Threshold) {
	if v.node.Kind != yaml.ScalarNode || !strings.HasSuffix(v.node.Value, "%") {
		into.Units, _ = d.number(v)
		return
	}
	into.Percent = d.percent(v, "a share of the quota in whole percent, such as 80%, or a number of units")
}

// thresholds checks the thresholds of all limits.
func (c *checker) thresholds() {
	for i := range c.policy.Limits {
		l := &c.policy.Limits[i]
		field := fmt.Sprintf("limits[%d].thresholds", i)
		if l.Algorithm == limit.Concurrency && len(l.Thresholds) > 0 {
			c.fail(field, "cannot be on a concurrency limit: it counts what is open now, "+
				"and has no period in which an event could be the only one")
			continue
		}
		for j, t := range l.Thresholds {
			c.threshold(fmt.Sprintf("%s[%d]", field, j), l, t)
			if (t != Threshold{}) && slices.Index(l.Thresholds, t) < j {
				c.fail(fmt.Sprintf("%s[%d]", field, j), "%v is there twice", t)
			}
		}
	}
}

func (c *checker) threshold(field string, l *Limit, t Threshold) {
	switch {
	case t.Percent == 0 && (t.Units < 1 || t.Units > limit.MaxQuota):
		c.fail(field, "must be 1 to %d units, or a share of the quota such as 80%%", uint64(limit.MaxQuota))
	case t.Percent != 0 && t.Units != 0:
		c.fail(field, "is both a share of the quota and a number of units")
	case t.Percent > thresholdPercentMax:
		c.fail(field, "is %v: at most %d%% of the quota can be a threshold", t, thresholdPercentMax)
	case t.Percent != 0 && l.Algorithm == limit.Unlimited:
		c.fail(field, "is %v, and an unlimited limit has no quota: say a number of units", t)
	case t.Percent != 0 && l.Quota == 0 && l.Algorithm != 0:
		c.fail(field, "is %v of a quota of 0, of which nothing can be used: say a number of units, or leave it out", t)
	}
}

// inlineThresholds refuses thresholds of limits that belong to no policy.
func (c *checker) inlineThresholds() {
	for i := range c.policy.Limits {
		if len(c.policy.Limits[i].Thresholds) > 0 {
			c.fail(fmt.Sprintf("limits[%d].thresholds", i), "can only be in a policy, whose sinks get the events")
		}
	}
}
