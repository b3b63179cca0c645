package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-io/stint/limit"
)

// EnvoyImport makes the policies and rules of configuration files of envoyproxy/ratelimit
// (https://github.com/envoyproxy/ratelimit, src/config/config_impl.go). Each limit becomes a policy. The zero value is
// ready. It is for one goroutine.
type EnvoyImport struct {
	// Notes list what is counted differently, or left out, each with its file and line.
	Notes []string

	policies []*Policy
	rules    Rules // only domains, in the order of the files: Set sorts them
}

// Read adds a file. The error is a *ParseError with every problem found; then nothing of the file is added.
func (m *EnvoyImport) Read(fileName string, data []byte) error {
	root, problem := load(data)
	if problem != nil {
		return &ParseError{File: fileName, Problems: []Problem{*problem}}
	}
	f := envoyFile{decoder: newDecoder(), into: m, domain: &EnvoyDomain{}, named: map[string]bool{}}
	before := f.read(f.top(root))
	if err := f.error(fileName); err != nil {
		return err
	}
	m.policies = append(m.policies, f.policies...)
	if before != nil {
		before.Rules = append(before.Rules, f.domain.Rules...)
	} else {
		m.rules.Envoy = append(m.rules.Envoy, f.domain)
	}
	for _, n := range f.notes {
		m.Notes = append(m.Notes, fmt.Sprintf("%s:%d: %s", fileName, n.Line, n.Message))
	}
	return nil
}

// Set returns what was read. The error is a *ParseError.
func (m *EnvoyImport) Set() (*Set, error) {
	set, err := Build(m.policies)
	if err != nil {
		return nil, err
	}
	return readRules("policies", sectionsKind.nodeOf(&m.rules), set)
}

// envoyFile is a file being read.
type envoyFile struct {
	*decoder
	into     *EnvoyImport    // what earlier files gave; unchanged until the file is known to have no problem
	domain   *EnvoyDomain    // with the rules of this file alone
	policies []*Policy       // of this file
	named    map[string]bool // names of limits of the domain, in all files, which other limits may replace
	notes    []Problem       // without paths
}

func (f *envoyFile) note(v value, format string, args ...any) {
	f.notes = append(f.notes, Problem{Line: f.placeOf(v.path).line, Message: fmt.Sprintf(format, args...)})
}

// fields returns the known fields of a mapping by name, and reports the others.
func (f *envoyFile) fields(v value, known ...string) map[string]value {
	given := f.entries(v)
	f.knows(v, given, known)
	fields := map[string]value{}
	for _, e := range given {
		if slices.Contains(known, e.name) {
			fields[e.name] = e
		}
	}
	return fields
}

// scan reads a field, unless it is absent.
func (f *envoyFile) scan(v value, into any) {
	if v.node != nil {
		kindOf(reflect.TypeOf(into).Elem(), "").readInto(f.decoder, v, into)
	}
}

// read returns the domain as defined in earlier files, or nil if they do not define it. The rules of this file join it
// (MERGE_DOMAIN_CONFIG).
func (f *envoyFile) read(root value) (before *EnvoyDomain) {
	for i, node := range root.node.Content {
		if node.Value == "ConfigMap" && root.node.Content[max(i, 1)-1].Value == "kind" {
			f.fail("", `is a ConfigMap: import the files that its field "data" has, each by itself`)
			return nil
		}
	}
	fields := f.fields(root, "domain", "descriptors")
	f.scan(fields["domain"], &f.domain.Name)
	if f.domain.Name == "" && !f.failed["domain"] {
		f.fail("domain", "is missing")
	}
	for _, other := range f.into.rules.Envoy {
		if other.Name == f.domain.Name {
			before = other
			for i := range other.Rules {
				f.named[other.Rules[i].Name] = other.Rules[i].Name != ""
			}
		}
	}
	if v, ok := fields["descriptors"]; ok {
		f.level(v, envoyStep{})
	}
	for i := range f.domain.Rules {
		r := &f.domain.Rules[i]
		r.Replaces = slices.DeleteFunc(r.Replaces, func(name string) bool {
			if !f.named[name] {
				f.note(fields["descriptors"], "replaces %s is left out: no limit has that name", shown(name))
			}
			return !f.named[name]
		})
	}
	return before
}

// envoyStep is the path to a descriptor.
type envoyStep struct {
	match  []EnvoyEntry
	shared []bool // by entry of match: whether the values share one counter
}

// envoyDescriptor is the fields of one descriptor.
type envoyDescriptor struct {
	value
	fields map[string]value
	pair   EnvoyEntry // with the value "*" if it is bare; without a key if that was refused
	bare   bool       // without a value
}

// level reads the descriptors of one list.
func (f *envoyFile) level(v value, way envoyStep) {
	first := map[EnvoyEntry]string{}
	all := map[string]string{} // by key: the path of its value "*"
	var list []envoyDescriptor
	items, _ := f.items(v)
	for _, item := range items {
		d := f.descriptor(item)
		if d.pair.Key == "" {
			continue
		}
		same := d.pair
		if d.bare {
			same.Value = ""
		}
		if path, twice := first[same]; twice {
			f.fail(item.path, "has the key and value of %s", path)
			continue
		}
		first[same] = item.path
		if d.pair.Value == "*" && !d.bare {
			all[d.pair.Key] = item.path
		}
		list = append(list, d)
	}
	passed := map[string]bool{} // keys with "*" already read
	for _, d := range list {
		pattern := strings.Contains(d.pair.Value, "*")
		if path := all[d.pair.Key]; path != "" && path != d.path && pattern && (d.bare || passed[d.pair.Key]) {
			f.note(d.value, "%s is left out: %s is met by every value of %s before", d.path, path, shown(d.pair.Key))
			continue
		}
		passed[d.pair.Key] = passed[d.pair.Key] || all[d.pair.Key] == d.path
		f.rule(d, way)
	}
}

func (f *envoyFile) descriptor(v value) envoyDescriptor {
	d := envoyDescriptor{value: v, fields: f.fields(v, "key", "value", "rate_limit", "descriptors", "shadow_mode",
		"quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata")}
	f.scan(d.fields["key"], &d.pair.Key)
	f.scan(d.fields["value"], &d.pair.Value)
	switch {
	case d.pair.Key == "" && !f.failed[v.path] && !f.failed[v.path+".key"]:
		f.fail(v.path+".key", "is missing")
	case strings.Contains(d.pair.Key, "*"):
		f.fail(v.path+".key", `has "*", which is only known in values`)
	}
	d.bare = d.pair.Value == ""
	if d.bare {
		d.pair.Value = "*"
	}
	return d
}

// rule makes the rule of a descriptor, and of those below it.
func (f *envoyFile) rule(d envoyDescriptor, way envoyStep) {
	var share bool
	f.scan(d.fields["share_threshold"], &share)
	if share && (d.bare || !strings.Contains(d.pair.Value, "*")) {
		f.fail(d.path+".share_threshold", `is for values with "*"`)
	}
	var quotaMode bool
	if f.scan(d.fields["quota_mode"], &quotaMode); quotaMode {
		f.fail(d.path+".quota_mode", "is not supported: a request is over if one of its limits is")
	}
	for _, name := range []string{"detailed_metric", "value_to_metric", "metadata"} {
		if v, ok := d.fields[name]; ok {
			f.note(v, "%s is left out: it changes no limit", name)
		}
	}
	way.match = append(slices.Clip(way.match), d.pair)
	way.shared = append(slices.Clip(way.shared), share)
	below, hasBelow := d.fields["descriptors"]
	if v, ok := d.fields["rate_limit"]; ok {
		f.limited(d, v, way)
	} else if !hasBelow {
		f.domain.Rules = append(f.domain.Rules, EnvoyRule{Match: way.match})
	}
	if hasBelow {
		f.level(below, way)
	}
}

// limited makes the policy of a limit, and the rule that uses it.
func (f *envoyFile) limited(d envoyDescriptor, v value, way envoyStep) {
	fields := f.fields(v, "requests_per_unit", "unit", "unlimited", "name", "replaces")
	r := EnvoyRule{Match: way.match, LookPast: true}
	var unit string
	var unlimited bool
	var quota uint32
	f.scan(fields["name"], &r.Name)
	f.scan(fields["unit"], &unit)
	f.scan(fields["unlimited"], &unlimited)
	f.scan(fields["requests_per_unit"], &quota)
	if list, ok := fields["replaces"]; ok {
		items, _ := f.items(list)
		for _, item := range items {
			f.replaces(item, &r)
		}
	}
	p := &Policy{Retention: DefaultRetention, OnExpire: OnExpireCancel}
	f.scan(d.fields["shadow_mode"], &p.Shadow)
	l := Limit{Name: strings.ToLower(unit), Limit: limit.Limit{Algorithm: limit.FixedWindow, Quota: uint64(quota),
		Period: envoyPeriods[strings.ToLower(unit)]}}
	switch {
	case unlimited && unit != "":
		f.fail(v.path+".unit", "is %s, and the limit is unlimited: leave one of them out", shown(unit))
	case unlimited:
		l = Limit{Name: "free", Limit: limit.Limit{Algorithm: limit.Unlimited}}
	case l.Period == 0:
		f.fail(v.path+".unit", "is %s: second, minute, hour, day, week, month and year are units", shown(unit))
	case l.Period >= envoyPeriods["week"]:
		f.note(v, "a %s is %s, counted from 1970, as envoyproxy/ratelimit does it: `calendar: {unit: %s}` is "+
			"the real one",
			l.Name, SpanText(l.Period), l.Name)
	}
	if !unlimited && quota == 0 {
		f.note(v, "%s denies everything: its requests_per_unit is 0", d.path)
	}
	p.Limits = []Limit{l}
	p.Name = f.name(r.Name, way)
	f.policies = append(f.policies, p)
	f.named[r.Name] = r.Name != ""
	key, err := way.template()
	if err != nil {
		f.fail(d.path, "shares a counter by the key of all values on the way to it, which %v", err)
	}
	r.Entries = []RuleEntry{{Policy: p.Name, Cost: 1, Key: key}}
	f.domain.Rules = append(f.domain.Rules, r)
}

// envoyPeriods are the units of envoyproxy/ratelimit.
var envoyPeriods = map[string]limit.Span{"second": hour / 3600, "minute": hour / 60, "hour": hour, "day": 24 * hour,
	"week": 7 * 24 * hour, "month": 30 * 24 * hour, "year": 365 * 24 * hour}

// replaces adds a name to those that a rule replaces. The limit with that name may follow later in the file: read drops
// the names of limits that do not exist.
func (f *envoyFile) replaces(item value, r *EnvoyRule) {
	var name string
	f.scan(f.fields(item, "name")["name"], &name)
	switch {
	case name == "":
		f.fail(item.path+".name", "is missing")
	case name == r.Name:
		f.fail(item.path+".name", "is that of the limit itself")
	default:
		r.Replaces = append(r.Replaces, name)
	}
}

// name returns a name that no other policy has.
func (f *envoyFile) name(given string, way envoyStep) string {
	text := given
	if text == "" {
		text = f.domain.Name
		for _, m := range way.match {
			text += "." + m.Key
			if m.Value != "*" {
				text += "-" + m.Value
			}
		}
	}
	name := []byte(strings.ToLower(text))
	for i, c := range name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-_", rune(c)) {
			name[i] = '-'
		}
	}
	const bytesMost = nameBytesMax - 6 // leaves room for a number
	base := strings.Trim(string(name[:min(len(name), bytesMost)]), "-_.")
	if base == "" {
		base = "limit"
	}
	taken := func(name string) bool {
		is := func(p *Policy) bool { return p.Name == name }
		return slices.ContainsFunc(f.policies, is) || slices.ContainsFunc(f.into.policies, is)
	}
	unique := base
	for i := 2; taken(unique); i++ {
		unique = base + "-" + strconv.Itoa(i)
	}
	return unique
}

// template makes the key of a limit if some of its values share a counter. Other limits have the descriptor as their
// key.
func (w *envoyStep) template() (Template, error) {
	if !slices.Contains(w.shared, true) {
		return Template{}, nil
	}
	var text []byte
	for i, m := range w.match {
		if i > 0 {
			text = append(text, '|')
		}
		text = append(AppendEscaped(text, m.Key), '=')
		if w.shared[i] || !strings.Contains(m.Value, "*") {
			text = AppendEscaped(text, m.Value)
		} else {
			text = fmt.Appendf(text, "{%d}", i+1)
		}
	}
	return ParseTemplate(string(text), nil)
}
