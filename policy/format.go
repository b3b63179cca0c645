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
// bytes. What a file may leave out is left out, but for the numbers of a lockout, which only say something together. A nil set is an empty one. It may be called concurrently.
func Format(s *Set) []byte {
	if s == nil || len(s.names) == 0 {
		return []byte("policies: {}\n")
	}
	w := writer{text: []byte("policies:\n")}
	for _, name := range s.names {
		w.policy(s.byName[name])
	}
	return w.text
}

// FormatPolicy writes one policy as Format does, as if the file had no other, without the indentation. It may be called
// concurrently.
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

// writer gathers the lines of a file.
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
		w.line(2, "headers: [%s]", strings.Join(p.Headers, ", "))
	}
	if p.Reason != "" {
		w.line(2, "reason: %s", strconv.Quote(p.Reason)) // what it escapes, YAML escapes alike
	}
	if p.Retention != DefaultRetention {
		w.line(2, "idempotency_retention: %s", spanText(p.Retention))
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
		w.line(2, "deny_cache: %s", spanText(p.DenyCache))
	}
	if p.Parent != "" {
		w.line(2, "parent: %s", plain(p.Parent))
	}
	w.line(2, "limits:")
	for _, l := range p.Limits {
		w.line(3, "- %s", limitText(&l))
	}
	w.tiers(p)
	if p.Lockout != nil {
		w.line(2, "lockout: %s", lockoutText(p.Lockout))
	}
}

// lockoutText is a ladder in one line.
func lockoutText(l *Lockout) string {
	var fields fieldList
	fields.add("after", strconv.FormatUint(uint64(l.After), 10))
	fields.add("base", spanText(l.Base))
	fields.add("factor", strconv.FormatUint(uint64(l.Factor), 10))
	fields.add("max", spanText(l.Max))
	fields.add("forgive_after", spanText(l.ForgiveAfter))
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

// limitText is a limit in one line.
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
	fields.add(algorithmField(l.Algorithm), algorithmText(&l.Limit))
	return fields.String()
}

func algorithmText(l *limit.Limit) string {
	var fields fieldList
	switch l.Algorithm {
	case limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog:
		fields.add("period", spanText(l.Period))
	case limit.FixedWindowFirstHit:
		fields.add("period", spanText(l.Period))
		fields.add("anchor", "first_hit")
	case limit.SlidingBuckets:
		fields.add("period", spanText(l.Period))
		fields.add("bucket", spanText(l.Bucket))
	case limit.TokenBucket:
		fields.number("refill", &l.Count)
		fields.add("per", spanText(l.Period))
		if l.Initial != l.Quota {
			fields.number("initial", &l.Initial)
		}
	case limit.GCRA:
		fields.number("rate", &l.Count)
		fields.add("per", spanText(l.Period))
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

// tierText is a tier in one line. Its limits come in the order of the policy.
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

// yamlWords are names that a reader of YAML, of this version or an older one, takes for something else than text.
var yamlWords = []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}

// plain is a name as YAML text, in quotes where it could be read as a number, a date or a truth value.
func plain(name string) string {
	if name == "" || name[0] < 'a' || name[0] > 'z' || slices.Contains(yamlWords, name) {
		return strconv.Quote(name)
	}
	return name
}

// spanText writes a duration without the zeros of time.Duration, and in ASCII: 24h, not 24h0m0s, and 5us.
func spanText(s limit.Span) string {
	text := (time.Duration(s) * time.Microsecond).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return strings.Replace(text, "µ", "u", 1)
}
