package policy

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/stint-io/stint/limit"
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

// limitNames are the fields of a limit.
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
		f.kind = mappingKind(reflect.TypeFor[limit.Limit](), inner, nil)
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
	plain := k.schema
	k.schema = func() jsonSchema {
		var one []jsonSchema
		for _, a := range algorithms {
			required := []string{a.name, "quota"}
			if a.name == "unlimited" {
				required = required[:1]
			}
			one = append(one, jsonSchema{"required": required})
		}
		return plain().with("oneOf", one)
	}
	return k
}
