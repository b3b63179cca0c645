package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
)

// Format writes a set as its one canonical YAML text: Parse reads it back to an equal set, and equal sets have equal
// bytes. Optional fields with their default value are left out, except for the numbers of a lockout, which only make sense
// together. A nil set is an empty one. Format may be called concurrently.
func Format(s *Set) []byte {
	if s == nil {
		return []byte("policies: {}\n")
	}
	w := writer{text: []byte("policies:\n")}
	if len(s.names) == 0 {
		w.text = []byte("policies: {}\n")
	}
	for _, name := range s.names {
		w.policy(s.byName[name])
	}
	w.rules(s.rules.all())
	return w.text
}

// FormatPolicy writes one policy as Format does, as if it were the only one in the file, and without the indentation. It
// may be called concurrently.
func FormatPolicy(p *Policy) []byte {
	var w writer
	w.policy(p)
	lines := strings.SplitAfter(string(w.text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, indent)
	}
	return []byte(strings.Join(lines, ""))
}

const indent = "  "

// writer collects the lines of a file.
type writer struct{ text []byte }

func (w *writer) line(depth int, format string, args ...any) {
	w.text = append(w.text, strings.Repeat(indent, depth)...)
	w.text = fmt.Appendf(w.text, format, args...)
	w.text = append(w.text, '\n')
}

func (w *writer) policy(p *Policy) {
	w.line(1, "%s:", plain(p.Name))
	if p.Security {
		w.line(2, "security: true")
	}
	if p.Shadow {
		w.line(2, "shadow: true")
	}
	if len(p.Headers) > 0 {
		w.line(2, "headers: %s", headersText(p.Headers))
	}
	if p.Reason != "" {
		w.line(2, "reason: %s", strconv.Quote(p.Reason)) // YAML has the same escapes
	}
	if p.Retention != DefaultRetention {
		w.line(2, "idempotency_retention: %s", SpanText(p.Retention))
	}
	if p.OnExpire != OnExpireCancel && p.OnExpire != OnExpireDefault {
		w.line(2, "on_expire: %s", onExpireWords[p.OnExpire])
	}
	if p.OnChange != AsIs {
		w.line(2, "on_change: %s", onChangeWords[p.OnChange])
	}
	if p.CountDenied {
		w.line(2, "count_denied: true")
	}
	if p.DenyCache != 0 {
		w.line(2, "deny_cache: %s", SpanText(p.DenyCache))
	}
	if p.Parent != "" {
		w.line(2, "parent: %s", plain(p.Parent))
	}
	if p.UnknownKey != UnknownKeyAllow {
		w.line(2, "unknown_key: %s", unknownKeyWords[p.UnknownKey])
	}
	if p.MaxKeys != 0 {
		w.line(2, "max_keys: %d", p.MaxKeys)
	}
	w.line(2, "limits:")
	for _, l := range p.Limits {
		w.line(3, "- %s", limitText(&l))
	}
	w.tiers(p)
	if p.Lockout != nil {
		w.line(2, "lockout: %s", lockoutText(p.Lockout))
	}
	if p.Meter != nil {
		w.line(2, "meter: %s", meterText(p.Meter))
	}
	if len(p.Notify) > 0 {
		w.line(2, "notify: %s", notifyText(p.Notify))
	}
}

// lockoutText returns a ladder in one line.
func lockoutText(l *Lockout) string {
	var fields fieldList
	fields.add("after", strconv.FormatUint(uint64(l.After), 10))
	fields.add("base", SpanText(l.Base))
	fields.add("factor", strconv.FormatUint(uint64(l.Factor), 10))
	fields.add("max", SpanText(l.Max))
	fields.add("forgive_after", SpanText(l.ForgiveAfter))
	if l.OnDenied {
		fields.add("on_denied", "true")
	}
	if l.StepDown {
		fields.add("step_down", "true")
	}
	return fields.String()
}

func (w *writer) tiers(p *Policy) {
	if len(p.Tiers) > 0 {
		w.line(2, "tiers:")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Tiers)) {
		w.line(3, "%s: %s", plain(name), tierText(p, p.Tiers[name]))
	}
	if p.DefaultTier != "" {
		w.line(2, "default_tier: %s", plain(p.DefaultTier))
	}
}

// limitText returns a limit in one line.
func limitText(l *Limit) string {
	var fields fieldList
	fields.add("name", plain(l.Name))
	if l.Algorithm != limit.Unlimited {
		fields.number("quota", &l.Quota)
	}
	if l.Unit != "" {
		fields.add("unit", plain(l.Unit))
	}
	if l.Shadow {
		fields.add("shadow", "true")
	}
	if l.Reason != "" {
		fields.add("reason", strconv.Quote(l.Reason)) // YAML has the same escapes
	}
	if l.OnRecovery != RecoverFull {
		fields.add("on_recovery", onRecoveryWords[l.OnRecovery])
	}
	if l.OnExceeded != ExceededDeny {
		fields.add("on_exceeded", onExceededWords[l.OnExceeded])
	}
	if len(l.Thresholds) > 0 {
		fields.add("thresholds", thresholdsText(l.Thresholds))
	}
	fields.add(algorithmField(l.Algorithm), algorithmText(&l.Limit))
	return fields.String()
}

func algorithmText(l *limit.Limit) string {
	var fields fieldList
	switch l.Algorithm {
	case limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog:
		fields.add("period", SpanText(l.Period))
	case limit.FixedWindowFirstHit:
		fields.add("period", SpanText(l.Period))
		fields.add("anchor", "first_hit")
	case limit.SlidingBuckets:
		fields.add("period", SpanText(l.Period))
		fields.add("bucket", SpanText(l.Bucket))
	case limit.TokenBucket:
		fields.number("refill", &l.Count)
		fields.add("per", SpanText(l.Period))
		if l.Initial != l.Quota {
			fields.number("initial", &l.Initial)
		}
	case limit.GCRA:
		fields.number("rate", &l.Count)
		fields.add("per", SpanText(l.Period))
	case limit.Calendar:
		cycleFields(&fields, l.Cycle)
	}
	return fields.String()
}

func cycleFields(fields *fieldList, c *limit.Cycle) {
	usual := UsualCycle(c.Unit)
	fields.add("unit", unitWords[c.Unit])
	if c.Every != usual.Every {
		fields.add("every", strconv.Itoa(int(c.Every)))
	}
	if zone := c.Zone.String(); zone != utc {
		fields.add("time_zone", zoneText(zone))
	}
	if c.AnchorDay != usual.AnchorDay {
		fields.add("anchor_day", strconv.Itoa(int(c.AnchorDay)))
	}
	if c.WeekStart != usual.WeekStart {
		fields.add("week_start", strconv.Itoa(int(c.WeekStart)))
	}
}

// tierText returns a tier in one line, with its limits in the order of the policy.
func tierText(p *Policy, t Tier) string {
	var fields fieldList
	if t.Unlimited {
		fields.add("unlimited", "true")
	}
	for _, l := range p.Limits {
		changed, ok := t.Limits[l.Name]
		if !ok {
			continue
		}
		var numbers fieldList
		numbers.number("quota", changed.Quota)
		numbers.number("refill", changed.Refill)
		numbers.number("rate", changed.Rate)
		fields.add(plain(l.Name), numbers.String())
	}
	return fields.String()
}

// fieldList is a YAML mapping in one line.
type fieldList []string

func (f *fieldList) add(name, value string) { *f = append(*f, name+": "+value) }

func (f *fieldList) number(name string, n *uint64) {
	if n != nil {
		f.add(name, strconv.FormatUint(*n, 10))
	}
}

// String implements fmt.Stringer.
func (f fieldList) String() string { return "{" + strings.Join(f, ", ") + "}" }

// yamlWords are names that a YAML reader, of this or an older version of YAML, does not take for text.
var yamlWords = []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}

// plain returns a name as YAML text, quoted if it could be read as a number, a date or a truth value.
func plain(name string) string {
	if name == "" || name[0] < 'a' || name[0] > 'z' || slices.Contains(yamlWords, name) {
		return strconv.Quote(name)
	}
	return name
}

// SpanText returns a length of time exactly, in the form of a policies file: the form of time.Duration, but without
// trailing zero units and in ASCII, such as 24h instead of 24h0m0s, and 5us.
func SpanText(s limit.Span) string {
	text := (time.Duration(s) * time.Microsecond).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return strings.Replace(text, "µ", "u", 1)
}
