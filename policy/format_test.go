package policy_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// sameSet compares sets by meaning: an absent map or list is an empty one.
func sameSet(t *testing.T, got, want *policy.Set) {
	t.Helper()
	if !reflect.DeepEqual(got.Names(), want.Names()) {
		t.Fatalf("policies %v, want %v", got.Names(), want.Names())
	}
	for _, name := range want.Names() {
		a, _ := got.Lookup(name)
		b, _ := want.Lookup(name)
		if !reflect.DeepEqual(bare(a), bare(b)) {
			t.Fatalf("%s is\n%+v\nwant\n%+v", name, bare(a), bare(b))
		}
		for _, tier := range append(tierNames(b), "") {
			x, _ := a.Resolve(tier)
			y, ok := b.Resolve(tier)
			if !ok || !reflect.DeepEqual(x, y) {
				t.Fatalf("%s, tier %q: %+v, want %+v", name, tier, x, y)
			}
		}
	}
}

func tierNames(p *policy.Policy) (names []string) {
	for name := range p.Tiers {
		names = append(names, name)
	}
	return names
}

// bare returns a policy's exported fields only.
func bare(p *policy.Policy) policy.Policy {
	b := policy.Policy{Name: p.Name, Limits: p.Limits, Tiers: map[string]policy.Tier{}, DefaultTier: p.DefaultTier,
		Security: p.Security, Shadow: p.Shadow, Headers: append([]string{}, p.Headers...), Reason: p.Reason,
		Retention: p.Retention, Lockout: p.Lockout, CountDenied: p.CountDenied, OnExpire: p.OnExpire,
		OnChange:  p.OnChange,
		DenyCache: p.DenyCache, Parent: p.Parent, UnknownKey: p.UnknownKey, MaxKeys: p.MaxKeys, Meter: p.Meter,
		Notify: p.Notify, Lease: p.Lease}
	for name, tier := range p.Tiers {
		if tier.Limits == nil {
			tier.Limits = map[string]policy.TierLimit{}
		}
		b.Tiers[name] = tier
	}
	return b
}

// A new field must be written by Format, made by the generator below, and compared by bare.
func TestFormatKnowsEveryField(t *testing.T) {
	for known, of := range map[int]reflect.Type{
		20: reflect.TypeFor[policy.Policy](),
		16: reflect.TypeFor[policy.Limit](), // including those of limit.Limit, and limit.Limit itself
		2:  reflect.TypeFor[policy.Tier](),
		3:  reflect.TypeFor[policy.TierLimit](),
		7:  reflect.TypeFor[policy.Lockout](),
		5:  reflect.TypeFor[limit.Cycle](),
	} {
		fields := 0
		for _, f := range reflect.VisibleFields(of) {
			if f.IsExported() {
				fields++
			}
		}
		if fields != known {
			t.Errorf("%v has %d fields: %d are known here", of, fields, known)
		}
	}
}

func readBack(t *testing.T, set *policy.Set) *policy.Set {
	t.Helper()
	text := policy.Format(set)
	again, err := policy.Parse("formatted", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	sameSet(t, again, set)
	if second := policy.Format(again); !bytes.Equal(second, text) {
		t.Fatalf("the text changed:\n%s\nwas\n%s", second, text)
	}
	return again
}

// Every valid set can be written and read back unchanged.
func TestFormatIsReadBackAsItWas(t *testing.T) {
	sets := 2000
	if testing.Short() {
		sets = 200
	}
	for seed := range sets {
		g := generator{rand.New(rand.NewPCG(7, uint64(seed)))}
		var policies []*policy.Policy
		for i := range g.IntN(4) {
			policies = append(policies, g.policy(i))
			if i > 0 && g.maybe() {
				policies[i].Parent = policies[g.IntN(i)].Name
			}
			if i > 0 && policies[i].Parent == "" && g.maybe() { // the parents of later ones may be any
				g.lease(policies[i])
				break
			}
		}
		set, err := policy.Build(policies)
		if err != nil {
			t.Fatalf("seed %d: the generator made what is refused: %v", seed, err)
		}
		if readBack(t, set); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// Every file of this package that Parse accepts can be written and read again.
func TestFormatOfFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "dev.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		set, err := policy.Parse(file, data)
		if err != nil {
			t.Fatal(err)
		}
		readBack(t, set)
	}
}

// The text is a contract: nodes compare versions by it, and people store it.
func TestFormatText(t *testing.T) {
	for _, file := range []string{"every_field", "awkward_names", "namespaces"} {
		data, err := os.ReadFile("testdata/" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		set, err := policy.Parse(file, data)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/"+file+".canonical.txt", string(policy.Format(set)))
	}
	if got := string(policy.Format(nil)); got != "policies: {}\n" || got != string(policy.Format(policy.NewSet(nil))) {
		t.Errorf("no policies: %q", got)
	}
	if set, err := policy.Parse("", policy.Format(nil)); err != nil || len(set.Names()) != 0 {
		t.Errorf("no policies are read back as %v, %v", set, err)
	}
}

func TestFormatPolicyIsItsPartOfTheFile(t *testing.T) {
	p, _ := policy.Dev().Lookup("api")
	text := string(policy.FormatPolicy(p))
	if !strings.HasPrefix(text, "api:\n  headers:") {
		t.Errorf("got\n%s", text)
	}
	alone := "policies:\n  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
	if want := policy.Format(policy.NewSet([]*policy.Policy{p})); alone != string(want) {
		t.Errorf("got\n%s\nwant\n%s", alone, want)
	}
}

// generator makes valid policies.
type generator struct{ *rand.Rand }

func (g generator) maybe() bool { return g.IntN(3) == 0 }

// name returns a name that is easily misread, or an ordinary one.
func (g generator) name(i int) string {
	awkward := []string{"null", "true", "no", "y", "1", "007", "1e5", "0x1f", "2026-11-21", "1_000", "3.14",
		"a-b.c_d", "inf", "x"}
	return awkward[(i+g.IntN(3)*5)%len(awkward)]
}

// names returns n different names.
func (g generator) names(n int) []string {
	var names []string
	for len(names) < n {
		name := g.name(g.IntN(14))
		if len(names) > 14 || contains(names, name) {
			name = fmt.Sprintf("%s-%d", name, len(names))
		}
		names = append(names, name)
	}
	return names
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

func (g generator) policy(i int) *policy.Policy {
	p := &policy.Policy{Name: fmt.Sprintf("%s-%d", g.name(i), i), Security: g.maybe(), Shadow: g.maybe(),
		Reason: g.reason(), Retention: policy.DefaultRetention}
	if g.maybe() {
		p.Name = g.name(i) // the generator makes few enough policies for the names to differ
		if i > 0 {
			p.Name = fmt.Sprintf("%d", i)
		}
	}
	if g.maybe() {
		p.Retention = 1 + limit.Span(g.Int64N(int64(policy.DefaultRetention)))
	}
	for _, name := range g.names(1 + g.IntN(4)) {
		l := policy.Limit{Name: name, Shadow: g.maybe(), Limit: g.limit(), OnRecovery: policy.OnRecovery(g.IntN(2)),
			OnExceeded: policy.OnExceeded(g.IntN(2))}
		if g.maybe() {
			l.Reason = g.reason()
		}
		if g.maybe() {
			l.Unit = g.name(g.IntN(14))
		}
		l.Thresholds = g.thresholds(&l.Limit)
		p.Limits = append(p.Limits, l)
	}
	if g.maybe() {
		p.Notify = g.names(1 + g.IntN(8))
	}
	if g.maybe() {
		families := [][]string{{"ietf"}, {"x-ratelimit", "x-ratelimit-delta", "x-ratelimit-github"},
			{"x-quota", "x-quota: month", "x-quota: 0"}}
		for _, i := range g.Perm(3)[:g.IntN(4)] {
			p.Headers = append(p.Headers, families[i][g.IntN(len(families[i]))])
		}
	}
	g.tiers(p)
	p.OnExpire, p.OnChange, p.CountDenied = policy.OnExpire(1+g.IntN(2)), policy.OnChange(g.IntN(4)), g.maybe()
	p.UnknownKey = policy.UnknownKey(g.IntN(2))
	if g.IntN(3) == 0 {
		p.MaxKeys = 1 + g.Uint64N(1<<40)
	}
	if g.maybe() {
		p.Meter = &policy.Meter{Name: g.name(g.IntN(14)),
			Cycle:  &limit.Cycle{Unit: limit.Hour, Every: uint16(1 + g.IntN(9)), Zone: zone("UTC")},
			Retain: 1 + g.Uint64N(36), Grace: limit.Span(1+g.IntN(7200)) * 1_000_000}
	}
	if g.maybe() {
		p.Lockout = g.lockout(p.CountDenied)
	}
	if !p.CountDenied && p.Lockout == nil && g.maybe() {
		p.DenyCache = 1 + limit.Span(g.Int64N(int64(policy.DenyCacheMax)))
	}
	return p
}

// lease gives a policy a lease, and takes away what cannot be with one.
func (g generator) lease(p *policy.Policy) {
	p.Lease = &policy.Lease{Units: 1 + g.Uint64N(1<<40), For: limit.Span(1+g.IntN(10)) * 1_000_000,
		Share: policy.Percent(1 + g.IntN(100))}
	p.Security, p.Meter, p.Lockout, p.CountDenied, p.DenyCache = false, nil, nil, false, 0
	for i := range p.Limits {
		l := &p.Limits[i]
		l.OnExceeded = policy.ExceededDeny
		if l.Algorithm != limit.Unlimited && l.Algorithm != limit.TokenBucket && l.Algorithm != limit.GCRA {
			l.Limit = limit.Limit{Algorithm: limit.SlidingLog, Quota: l.Quota, Period: 10*p.Lease.For + g.span()}
		}
	}
}

// thresholds returns thresholds that make sense on a limit.
func (g generator) thresholds(l *limit.Limit) (all []policy.Threshold) {
	if l.Algorithm == limit.Concurrency || g.maybe() {
		return nil
	}
	for range 1 + g.IntN(8) {
		t := policy.Threshold{Units: 1 + g.Uint64N(limit.MaxQuota)}
		if l.Quota > 0 && g.maybe() {
			t = policy.Threshold{Percent: 1 + g.Uint32N(1000)}
		}
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

func (g generator) lockout(countDenied bool) *policy.Lockout {
	base := 1 + g.span()/2
	l := policy.Lockout{After: 1 + g.Uint32N(10), Base: base, Factor: 2, Max: base + g.span()/2,
		ForgiveAfter: 86_400_000_000}
	if g.maybe() {
		l.Factor, l.Max = 1+g.Uint32(), l.Base+g.span()/2
	}
	if g.maybe() {
		l.ForgiveAfter = 1 + g.span()/2
	}
	l.OnDenied, l.StepDown = countDenied && g.maybe(), g.maybe()
	return &l
}

// cycle returns a valid cycle, sometimes an unusual one, such as every 57 months from the 31st.
func (g generator) cycle() *limit.Cycle {
	c := policy.UsualCycle(limit.Unit(1 + g.IntN(6)))
	if g.maybe() {
		c.Every = uint16(1 + g.IntN(100))
	}
	if c.AnchorDay > 0 && g.maybe() {
		c.AnchorDay = uint8(1 + g.IntN(31))
	}
	if c.WeekStart > 0 && g.maybe() {
		c.WeekStart = uint8(1 + g.IntN(7))
	}
	c.Zone = zones[g.IntN(len(zones))]
	return c
}

// zones have names that a YAML reader could misread without quotes.
var zones = []*limit.Zone{zone("UTC"), zone("America/New_York"), zone("Etc/GMT+5"), zone("Etc/GMT-14"), zone("NZ"),
	zone("America/Port-au-Prince"), zone("EST5EDT")}

func zone(name string) *limit.Zone {
	z, err := limit.LoadZone(name)
	if err != nil {
		panic(err)
	}
	return z
}

func (g generator) reason() string {
	runes := []rune("aZ \"'\\#:{}[]&*!|>%@`~-?,é漢🙂\u00a0\u00ad\u2028\u2029\u200b\ufeff\ufffd\ufffe\U0001f9ff\U0010ffff")
	var text []rune
	for range g.IntN(12) {
		text = append(text, runes[g.IntN(len(runes))])
	}
	return string(text)
}

func (g generator) span() limit.Span {
	units := []limit.Span{1, 1000, 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000}
	return (1 + limit.Span(g.IntN(100_000))) * units[g.IntN(len(units))] % (limit.MaxPeriod + 1)
}

func (g generator) limit() limit.Limit {
	for {
		l := limit.Limit{Algorithm: limit.Algorithm(1 + g.IntN(14)), Quota: 1 + g.Uint64N(10_000), Period: 1 + g.span()}
		switch l.Algorithm {
		case limit.Unlimited:
			l.Quota, l.Period = 0, 0
		case limit.Lifetime, limit.Concurrency:
			l.Period = 0
		case limit.Calendar:
			l.Period, l.Cycle = 0, g.cycle()
		case limit.SlidingBuckets:
			l.Bucket = 1 + g.span()%1000
			l.Period = l.Bucket * limit.Span(1+g.IntN(1000))
		case limit.TokenBucket:
			l.Count, l.Initial = 1+g.Uint64N(1000), l.Quota
			if g.maybe() {
				l.Initial = 1 + g.Uint64N(l.Quota)
			}
		case limit.GCRA:
			l.Count = 1 + g.Uint64N(1000)
		}
		if g.IntN(10) == 0 {
			l.Quota, l.Initial = 0, 0
		}
		if l.Validate() == nil {
			return l
		}
	}
}

func (g generator) tiers(p *policy.Policy) {
	if !g.maybe() {
		return
	}
	p.Tiers = map[string]policy.Tier{}
	for _, name := range g.names(g.IntN(4)) {
		tier := policy.Tier{Unlimited: g.maybe()}
		if !tier.Unlimited {
			tier.Limits = map[string]policy.TierLimit{}
			for _, l := range p.Limits {
				if g.maybe() {
					tier.Limits[l.Name] = g.tierLimit(l.Limit)
				}
			}
		}
		p.Tiers[name] = tier
		if g.maybe() {
			p.DefaultTier = name
		}
	}
}

// tierLimit changes numbers within the bounds of the limit, and sometimes none.
func (g generator) tierLimit(l limit.Limit) (t policy.TierLimit) {
	if quota := 1 + g.Uint64N(10_000); l.Algorithm != limit.Unlimited && g.maybe() {
		if l.Initial == l.Quota {
			l.Initial = quota
		}
		t.Quota, l.Quota = &quota, quota
	}
	count := 1 + g.Uint64N(1000)
	if l.Algorithm == limit.TokenBucket && g.maybe() {
		t.Refill, l.Count = &count, count
	}
	if l.Algorithm == limit.GCRA && g.maybe() {
		t.Rate, l.Count = &count, count
	}
	if l.Validate() != nil {
		return policy.TierLimit{} // the numbers contradict each other
	}
	return t
}
