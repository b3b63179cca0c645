package api

import (
	"fmt"
	"slices"
	"strings"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// envoyStep is a step in which the entries of an Envoy request are decided. Looks past the quota come first, since only
// the usage tells what they refuse. Then come the takes, together with the other looks, which cost 0: all or nothing.
// The rest comes last and never denies.
type envoyStep int

const (
	envoyLook   envoyStep = iota // Peek
	envoyTake                    // Check, or Peek if nothing is taken
	envoyCount                   // Count, of one entry
	envoyShadow                  // Check, of one entry, if the takes were admitted
	envoyBack                    // AddUsed, of one entry
	envoySteps
)

// envoyRequest is a request of Envoy as entries.
type envoyRequest struct {
	namespace   string            // "" if the domain has no rules: then there are no entries
	descriptors []envoyDescriptor // in the order of the message, as the answer has them
	entries     [envoySteps][]*envoyEntry
	counted     bool // something was counted
}

// envoyDescriptor is a descriptor and what it counts. Without entries it counts nothing, and is OK.
type envoyDescriptor struct {
	name     string        // of its rule; may be empty
	lookPast bool          // a look is denied only when more than the quota is used
	entries  []*envoyEntry // shared with other descriptors of the same policy and key
}

// envoyEntry is an entry that one or more descriptors count.
type envoyEntry struct {
	shard.Entry // with the sum of the costs; of a look past the quota with 1
	step        envoyStep
	decided     *envoyDecided // nil if it was not decided
	at          int           // its index in the entries of decided.r
}

// plainEntries returns the entries for a request.
func plainEntries(all []*envoyEntry) []shard.Entry {
	entries := make([]shard.Entry, len(all))
	for i, e := range all {
		entries[i] = e.Entry
	}
	return entries
}

// Bounds of a request of Envoy, besides those of its entries.
const (
	envoyDescriptorsMax = 64
	envoyPairsMax       = 64
	// envoyCostMax bounds the cost of an entry, and so keeps all entries with one parent within limit.MaxCost together.
	// A higher cost is lowered to it: an error would let the request pass.
	envoyCostMax = limit.MaxCost / entriesMax
)

// envoyRequestOf translates and validates a request. It reads only its arguments. A domain without rules, and a
// descriptor without a matching rule, count nothing.
func envoyRequestOf(policies *policy.Set, m *rlsv3.RateLimitRequest) (*envoyRequest, error) {
	switch n := len(m.GetDescriptors()); {
	case m.GetDomain() == "":
		return nil, shard.Invalidf("domain", "is missing")
	case n == 0:
		return nil, shard.Invalidf("descriptors", "are missing: a request has at least one")
	case n > envoyDescriptorsMax:
		return nil, shard.Invalidf("descriptors", "are %d: at most %d are allowed", n, envoyDescriptorsMax)
	}
	r := &envoyRequest{descriptors: make([]envoyDescriptor, len(m.Descriptors))}
	domain := policies.EnvoyDomain(m.Domain)
	if domain == nil {
		return r, nil
	}
	var err error
	if r.namespace, err = namespaceOf(domain.Namespace); err != nil {
		return nil, err
	}
	pairs, met, err := envoyRules(domain, m)
	if err != nil {
		return nil, err
	}
	for i, d := range m.Descriptors {
		path := fmt.Sprintf("descriptors[%d]", i)
		hits := min(envoyHits(m, d), envoyCostMax) //mutant:huge-cost-is-an-error
		if d.GetLimit() != nil {
			var entry shard.Entry
			if entry, err = envoyOverride(path, m.Domain, d, pairs[i], hits); err == nil {
				r.add(i, envoyStepOf(policy.EntryEnforce, hits, d.GetIsNegativeHits(), false), entry)
			}
		} else if met[i] != nil {
			r.descriptors[i].name, r.descriptors[i].lookPast = met[i].Name, met[i].LookPast
			err = r.addRule(policies, i, met[i], pairs[i], hits, d.GetIsNegativeHits())
		}
		if err != nil {
			return nil, err
		}
	}
	return r, r.problem()
}

// envoyRules returns each descriptor's entries and matching rule, without the rules that others replace.
func envoyRules(
	domain *policy.EnvoyDomain, m *rlsv3.RateLimitRequest,
) ([][]policy.EnvoyEntry, []*policy.EnvoyRule, error) {
	pairs := make([][]policy.EnvoyEntry, len(m.Descriptors))
	met := make([]*policy.EnvoyRule, len(m.Descriptors))
	var replaced map[string]bool
	for i, d := range m.Descriptors {
		if n := len(d.GetEntries()); n > envoyPairsMax {
			return nil, nil, shard.Invalidf(fmt.Sprintf("descriptors[%d].entries", i), "are %d: at most %d are allowed",
				n, envoyPairsMax)
		}
		pairs[i] = make([]policy.EnvoyEntry, len(d.GetEntries()))
		for j, e := range d.GetEntries() {
			pairs[i][j] = policy.EnvoyEntry{Key: e.GetKey(), Value: e.GetValue()}
		}
		if d.GetLimit() != nil {
			continue // it replaces the rule
		}
		if met[i] = domain.Match(pairs[i]); met[i] == nil {
			continue
		}
		for _, name := range met[i].Replaces {
			if replaced == nil {
				replaced = map[string]bool{}
			}
			replaced[name] = true
		}
	}
	for i, rule := range met {
		if rule != nil && rule.Name != "" && replaced[rule.Name] {
			met[i] = nil
		}
	}
	return pairs, met, nil
}

// envoyHits returns the cost of a descriptor: its own number wins, even 0, which is a look. The request's 0 means 1.
// (envoyproxy/ratelimit, src/utils/utilities.go.)
func envoyHits(m *rlsv3.RateLimitRequest, d *ratelimitv3.RateLimitDescriptor) uint64 {
	if own := d.GetHitsAddend(); own != nil {
		return own.GetValue()
	}
	return uint64(max(m.GetHitsAddend(), 1))
}

// envoyOverridePolicy is the label, in place of a policy, of limits that Envoy has sent.
const envoyOverridePolicy = "envoy-override"

// envoyOverride returns the entry of a limit that Envoy has sent with a descriptor. It replaces the rule, and has a
// counter of its own for each unit.
func envoyOverride(
	path, domain string, d *ratelimitv3.RateLimitDescriptor, pairs []policy.EnvoyEntry, hits uint64,
) (shard.Entry, error) {
	e := shard.Entry{Policy: envoyOverridePolicy, Cost: hits}
	times := uint64(1)
	if m := d.Limit.GetUnitMultiplier(); m != nil {
		times = uint64(m.GetValue())
	}
	for _, u := range envoyUnits {
		if u.override != d.Limit.GetUnit() || u.override == typev3.RateLimitUnit_UNKNOWN {
			continue
		}
		if times == 0 || times > uint64(limit.MaxPeriod/u.span) {
			return e, shard.Invalidf(path+".limit.unit_multiplier",
				"is %d: a limit's period is at least one unit and at most 100 years", times)
		}
		name := strings.ToLower(u.override.String())
		if times > 1 {
			name = fmt.Sprintf("%s-%d", name, times)
		}
		e.Limits = []policy.Limit{{Name: name, Limit: limit.Limit{Algorithm: limit.FixedWindow,
			Quota: uint64(d.Limit.GetRequestsPerUnit()), Period: u.span * limit.Span(times)}}}
		//mutant:descriptor-limits-merge
		key := append(policy.AppendEscaped([]byte("domain="), domain), "|limit="+name+"|"...)
		e.Key = string(policy.BoundKey(append(key, policy.DescriptorKey(pairs)...)))
		return e, nil
	}
	return e, shard.Invalidf(path+".limit.unit", "is %s: second, minute, hour, day, month and year are units",
		d.Limit.GetUnit())
}

// addRule adds the entries of a descriptor's rule.
func (r *envoyRequest) addRule(
	policies *policy.Set, i int, rule *policy.EnvoyRule, pairs []policy.EnvoyEntry, hits uint64, back bool,
) error {
	path := fmt.Sprintf("descriptors[%d]", i)
	for j := range rule.Entries {
		e := &rule.Entries[j]
		entry := shard.Entry{Policy: e.Policy, Key: rule.Key(e, pairs)}
		if problem := shard.KeyProblem(entry.Key); problem != "" {
			return shard.Invalidf(path, "makes a key of policy %q that %s", e.Policy, problem)
		}
		if entry.Cost = envoyCost(e.Cost, hits); entry.Cost == 0 && e.Mode == policy.EntryShadow {
			continue // a look that denies nothing
		}
		step := envoyStepOf(e.Mode, entry.Cost, back, rule.LookPast)
		r.add(i, step, entry)
		for parent, ok := shard.ParentOf(policies, &entry); ok &&
			step == envoyBack; parent, ok = shard.ParentOf(policies, &parent) {
			r.add(i, step, parent) // units given back to a key are given back to its parent
		}
	}
	return nil
}

// envoyCost returns the cost of hits at each, at most envoyCostMax.
func envoyCost(each, hits uint64) uint64 {
	if each > 0 && hits > envoyCostMax/each {
		return envoyCostMax
	}
	return each * hits
}

// envoyStepOf returns the step of an entry.
func envoyStepOf(mode policy.EntryMode, cost uint64, back, lookPast bool) envoyStep {
	switch {
	case cost == 0 && lookPast:
		return envoyLook
	case cost == 0:
		return envoyTake
	case back:
		return envoyBack
	case mode == policy.EntryCount:
		return envoyCount
	case mode == policy.EntryShadow:
		return envoyShadow
	}
	return envoyTake
}

// add adds an entry, or its cost to the same entry of another descriptor. If Envoy has sent different quotas for two of
// them, the lower one applies.
func (r *envoyRequest) add(i int, step envoyStep, entry shard.Entry) {
	if step == envoyLook {
		entry.Cost = 1 // what must be left
	}
	var before *envoyEntry
	same := func(e *envoyEntry) bool { return e.Policy == entry.Policy && e.Key == entry.Key }
	if at := slices.IndexFunc(r.entries[step], same); at < 0 {
		before = &envoyEntry{Entry: entry, step: step}
		r.entries[step] = append(r.entries[step], before)
	} else if before = r.entries[step][at]; step != envoyLook {
		before.Cost = min(before.Cost+entry.Cost, envoyCostMax)
		for i := range min(len(before.Limits), len(entry.Limits)) {
			before.Limits[i].Quota = min(before.Limits[i].Quota, entry.Limits[i].Quota) //mutant:first-quota-counts
		}
	}
	r.descriptors[i].entries = append(r.descriptors[i].entries, before)
}

// problem refuses what a check would refuse.
func (r *envoyRequest) problem() error {
	for step := range r.entries {
		if n := len(r.entries[step]); n > entriesMax {
			return shard.Invalidf("descriptors", "count %d keys: at most %d are allowed", n, entriesMax)
		}
	}
	return nil
}

// granted refuses a request unless the caller may do all its operations.
func (r *envoyRequest) granted(who *auth.Caller) error {
	if who.MayAll() {
		return nil
	}
	for step := range r.entries {
		op := auth.Check
		if envoyStep(step) == envoyBack { //mutant:check-gives-back
			op = auth.Adjust
		}
		for _, e := range r.entries[step] {
			on := auth.Target{Namespace: r.namespace, Policy: e.Policy, Key: e.Key}
			if !who.May(op, on) {
				return auth.NotGrantedError(op)
			}
			if e.Limits != nil && !who.May(auth.Inline, on) { //mutant:check-brings-limits
				return auth.NotGrantedError(auth.Inline)
			}
		}
	}
	return nil
}

// request makes the request of entries of one step.
func (r *envoyRequest) request(step envoyStep, entries []shard.Entry, policies *policy.Set) (shard.Request, error) {
	if step == envoyBack {
		return shard.Request{Op: shard.AddUsed, Namespace: r.namespace, Entries: entries,
			Adjustment: &shard.Adjustment{Amount: -int64(entries[0].Cost)}}, nil
	}
	op := [...]shard.Op{envoyLook: shard.Peek, envoyTake: shard.Check, envoyCount: shard.Count,
		envoyShadow: shard.Check}[step]
	if step == envoyTake && !slices.ContainsFunc(entries, func(e shard.Entry) bool { return e.Cost > 0 }) {
		op = shard.Peek // needs no entry in the log
	}
	made := shard.Request{Op: op, Namespace: r.namespace, Revision: policies.Version()}
	var err error
	made.Entries, err = withParents(policies, entries)
	return made, err
}
