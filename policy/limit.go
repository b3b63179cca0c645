package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/stint-io/stint/limit"
)

// Limit is a limit.Limit with its names and display texts.
type Limit struct {
	Name string `policy:"name,required" text:"name" about:"Name in the policy, for answers and tiers."`
	// Unit is for display: requests, tokens, bytes, cents; "" means requests.
	Unit string `policy:"unit" text:"name" about:"What is counted, for people. Absent: requests."`
	// Shadow makes the limit count and report when it would have denied, but never deny.
	Shadow bool `policy:"shadow" about:"Counted and reported, but it never denies."`
	// Reason is shown on a denial by this limit; "" means the policy's Reason.
	Reason string `policy:"reason" text:"reason" about:"Text for a caller that this limit denies."`
	// OnRecovery is how the limit continues after a restore from a backup.
	OnRecovery OnRecovery `policy:"on_recovery" about:"What counts as used after a restore from a backup."`
	// OnExceeded is the fate of a request that exceeds this limit.
	OnExceeded OnExceeded `policy:"on_exceeded" about:"What becomes of a request that it has no room for."`
	// Thresholds are the uses that fire an event, in the order of the file.
	Thresholds []Threshold `policy:"thresholds" most:"8" about:"Uses that fire an event: 80% of the quota, or 500."`
	// Unlimited means that a tier lifts this limit: it never denies. Its own algorithm still counts, so that another
	// tier finds the units used, and a key at rest is forgotten. It is false in Policy.Limits.
	Unlimited bool
	limit.Limit
}

// OnRecovery is how a limit continues after a restore from a backup, which lacks the usage since it was made.
type OnRecovery uint8

// The ways to continue.
const (
	// RecoverFull takes everything as used: nothing is admitted until that no longer counts (limit.Full).
	RecoverFull OnRecovery = 0
	RecoverKeep OnRecovery = 1 // the usage in the backup; usage since then is admitted again
)

// OnExceeded is the fate of a request that exceeds a limit. In every case it does not pass, and nothing is counted.
type OnExceeded uint8

// The ways to treat such a request. A limit with ExceededChallenge is called soft, any other one hard.
const (
	ExceededDeny      OnExceeded = 0 // it is denied
	ExceededChallenge OnExceeded = 1 // it is challenged, unless a hard limit or a block denies it
)

// algorithm is a field of a limit that selects an algorithm. A limit has exactly one of them.
type algorithm struct {
	name, about string
	is          []limit.Algorithm // Parse selects the first, unless its fields say otherwise
	fields      []string          // Go fields of limit.Limit, as in fieldsBy
}

var algorithms = []algorithm{
	{"fixed_window", "A count that starts again with each window.",
		[]limit.Algorithm{limit.FixedWindow, limit.FixedWindowFirstHit}, []string{
			"Period", `policy:"period,required" about:"Length of a window."`,
			"Algorithm", `policy:"anchor,told" usual:"epoch" about:"Whether it begins at multiples of period."`}},
	{"sliding_window", "A moving window, in buckets or as two weighted windows.",
		[]limit.Algorithm{limit.SlidingWindow, limit.SlidingBuckets}, []string{
			"Period", `policy:"period,required" about:"Length of the window."`,
			"Bucket", `policy:"bucket" about:"Width of a bucket, a divisor of period. Absent: two weighted windows."`}},
	{"sliding_log", "Every hit is remembered, exactly.", []limit.Algorithm{limit.SlidingLog}, []string{
		"Period", `policy:"period,required" about:"Length of the window."`}},
	{"token_bucket", "A bucket that refills continuously. Its capacity is the quota.",
		[]limit.Algorithm{limit.TokenBucket}, []string{
			"Count", `policy:"refill,required" about:"Tokens that come back in one per."`,
			"Period", `policy:"per,required" about:"The span in which the refill comes back."`,
			"Initial", `policy:"initial" about:"Tokens in an unused bucket. Absent: the quota."`}},
	{"gcra", "Evenly spaced admissions. The burst is the quota.", []limit.Algorithm{limit.GCRA}, []string{
		"Count", `policy:"rate,required" about:"Units admitted in one per."`,
		"Period", `policy:"per,required" about:"The span in which the rate is admitted."`}},
	{"calendar", "Minutes, hours, days, weeks, months or years of a zone.", []limit.Algorithm{limit.Calendar}, nil},
	{"concurrency", "A bound on the holds that are open at one time.", []limit.Algorithm{limit.Concurrency}, nil},
	{"lifetime", "A quota that never resets.", []limit.Algorithm{limit.Lifetime}, nil},
	{"unlimited", "Counted and never denied.", []limit.Algorithm{limit.Unlimited}, nil},
}

// limitNames are the fields of a limit. limitFields, which init calls once, adds them.
var limitNames []string

// limitFields returns the fields of the tags, the quota, which is read before the numbers of an algorithm, and the
// algorithms.
func limitFields() []field {
	algorithmOf := func(of reflect.Value) limit.Algorithm { return of.Addr().Interface().(*Limit).Algorithm }
	quota := fieldsBy[Limit]("Quota", `policy:"quota" about:"How many units fit. 0 denies everything: a ban."`)[0]
	quota.unless = func(of reflect.Value) bool { return algorithmOf(of) == limit.Unlimited }
	fields := slices.Insert(fieldsOf(reflect.TypeFor[Limit]()), 1, quota)
	for _, a := range algorithms {
		inner := fieldsBy[limit.Limit](a.fields...)
		for i := range inner {
			if inner[i].name == "initial" {
				inner[i].usual = func(of reflect.Value) reflect.Value { return of.FieldByName("Quota") }
			}
		}
		f := fieldsBy[Limit]("Limit", `policy:"`+a.name+`" about:"`+a.about+`"`)[0]
		f.kind = mappingKind(inner, nil)
		if a.name == "calendar" {
			f = fieldsBy[Limit]("Cycle", `policy:"calendar" about:"`+a.about+`"`)[0]
		}
		f.unless = func(of reflect.Value) bool { return !slices.Contains(a.is, algorithmOf(of)) }
		fields = append(fields, f)
	}
	for i := range fields {
		limitNames = append(limitNames, fields[i].name)
	}
	return fields
}

// algorithmField returns the name of the field that selects an algorithm.
func algorithmField(of limit.Algorithm) string {
	return algorithms[slices.IndexFunc(algorithms, func(a algorithm) bool { return slices.Contains(a.is, of) })].name
}

// finishLimit sets the algorithm of a limit that was read, and reports a limit without a quota or without exactly one
// algorithm.
func finishLimit(d *decoder, v value, of any) {
	if v.node.Kind != yaml.MappingNode {
		return
	}
	l := of.(*Limit)
	var names, known, given []string
	for i := 0; i < len(v.node.Content); i += 2 {
		names = append(names, v.node.Content[i].Value)
	}
	for _, a := range algorithms {
		if known = append(known, a.name); slices.Contains(names, a.name) {
			given = append(given, a.name)
			if l.Algorithm == 0 {
				l.Algorithm = a.is[0]
			}
		}
	}
	if l.Bucket != 0 {
		l.Algorithm = limit.SlidingBuckets
	}
	if !slices.Contains(names, "quota") && !slices.Contains(names, "unlimited") {
		d.fail(v.path+".quota", "is missing: 0 would deny everything")
	}
	isUnknown := func(name string) bool { return !slices.Contains(limitNames, name) }
	switch {
	case len(given) > 1:
		d.fail(v.path, "has more than one algorithm: %s", strings.Join(given, ", "))
	case len(given) == 0 && !slices.ContainsFunc(names, isUnknown):
		d.fail(v.path, "needs an algorithm, one of %s", strings.Join(known, ", "))
	}
}

// limitSchema makes an editor require the quota and one algorithm of a limit.
func limitSchema(k kind) kind {
	var one []jsonSchema
	for _, a := range algorithms {
		required := []string{a.name, "quota"}
		if a.name == "unlimited" {
			required = required[:1]
		}
		one = append(one, jsonSchema{"required": required})
	}
	k.schema = k.schema.with("oneOf", one)
	return k
}

func (c *checker) limits() {
	first := map[string]int{}
	for i, l := range c.policy.Limits {
		field := fmt.Sprintf("limits[%d]", i)
		if l.Name == "unlimited" {
			c.fail(field+".name", `"unlimited" is a word of tiers: choose another name`)
		}
		if other, twice := first[l.Name]; twice {
			c.fail(field+".name", "limits[%d] is named %s too", other, shown(l.Name))
		} else {
			first[l.Name] = i
		}
		c.numbers(field, l.Limit, limitField)
	}
}

// numbers reports an invalid limit. fieldOf returns the path of one of the limit's fields below the field of the file.
// A limit without an algorithm has already been reported by finishLimit.
func (c *checker) numbers(field string, l limit.Limit, fieldOf func(limit.Algorithm, string) string) {
	if l.Algorithm == 0 {
		return
	}
	var wrong *limit.FieldError
	if !errors.As(l.Validate(), &wrong) {
		return
	}
	if inner := fieldOf(l.Algorithm, wrong.Field); inner != "" {
		c.fail(field+inner, "%s", wrong.Message)
	} else {
		c.fail(field, "%v", wrong)
	}
}

// limitField is the fieldOf of numbers for a limit of a policy: all numbers but the quota stand below the algorithm.
func limitField(a limit.Algorithm, name string) string {
	if name == "quota" {
		return ".quota"
	}
	return "." + algorithmField(a) + "." + name
}
