package auth

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"
)

// made is a token with its record.
func made(t testing.TB, name string, ends time.Time, grants ...string) (text string, r Record) {
	t.Helper()
	text, err := NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r = Record{Name: name}
	if err := r.SetToken(text); err != nil {
		t.Fatal(err)
	}
	if !ends.IsZero() {
		r.Expires = ends.UnixMicro()
	}
	for _, g := range grants {
		grant, err := ParseGrant(g)
		if err != nil {
			t.Fatal(err)
		}
		r.Grants = append(r.Grants, grant)
	}
	return text, r
}

// at is the clock of a guard.
type at struct{ time.Time }

func guardOf(now *at, records ...Record) *Guard {
	g := NewGuard(func() time.Time { return now.Time })
	g.Learn(NewSet(records, true, nil))
	g.Heard(now.Time)
	return g
}

func TestATokenIsFoundByItsFormAndRefusedWhenALetterDiffers(t *testing.T) {
	for range 1000 {
		text, err := NewToken(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) != TokenLength || !strings.HasPrefix(text, "stint_") {
			t.Fatalf("%q", text)
		}
		if _, _, err := ParseToken(text); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		for i := range text {
			other := []byte(text)
			other[i] = 'a' + (text[i]+1)%26
			if _, _, err := ParseToken(string(other)); err == nil && string(other) != text {
				t.Fatalf("%q passes for %q", other, text)
			}
		}
	}
}

func TestWhoIsWho(t *testing.T) {
	now := &at{time.Unix(1_000_000, 0)}
	web, webRecord := made(t, "web", now.Add(time.Hour), "ops=check")
	stranger, _ := made(t, "stranger", time.Time{}, "ops=admin")
	role := Record{Name: "ci", Grants: []Grant{{Ops: []string{"read"}}}}
	g := guardOf(now, webRecord, role)
	forged := web[:idEnd] + stranger[idEnd:] // a known id with another secret
	for _, c := range []struct {
		proof Proof
		want  string // name, or the refusal
	}{
		{Proof{Token: web}, "token:web"},
		{Proof{Token: web, Port: Loopback}, "token:web"},
		{Proof{Role: "ci"}, "role:ci"},
		{Proof{Role: "web"}, errWrong.Message}, // a name of a token is no role
		{Proof{Role: "nobody"}, errWrong.Message},
		{Proof{Token: web, Role: "ci"}, "token:web"},
		{Proof{Token: stranger, Role: "ci"}, errWrong.Message}, // a wrong token is not passed over
		{Proof{Token: stranger}, errWrong.Message},
		{Proof{Token: forged}, errWrong.Message},
		{Proof{Token: web[:len(web)-1]}, errWrong.Message},
		{Proof{Token: "?"}, errWrong.Message},
		{Proof{}, errNoToken.Message},
		{Proof{Port: Loopback}, errNoToken.Message},
		{Proof{Port: Trusted}, errNoToken.Message}, // --insecure never lifts tokens that exist
		{Proof{Port: Local}, "local"},
	} {
		caller, refusal := g.Caller(c.proof)
		if got := nameOf(caller, refusal); got != c.want {
			t.Errorf("%+v: %q, want %q", c.proof, got, c.want)
		}
	}
	now.Time = now.Add(time.Hour)
	if _, refusal := g.Caller(Proof{Token: web}); refusal != errWrong {
		t.Errorf("an expired token: %v", refusal)
	}
}

func nameOf(c *Caller, r *Refusal) string {
	if r != nil {
		return r.Message
	}
	return c.Name()
}

func TestBeforeTheFirstToken(t *testing.T) {
	now := &at{time.Unix(1_000_000, 0)}
	g := NewGuard(func() time.Time { return now.Time })
	for _, port := range []Port{Public, Trusted, Loopback} {
		if _, refusal := g.Caller(Proof{Port: port}); refusal != Young {
			t.Errorf("port %d lets callers in before the node has heard of tokens: %v", port, refusal)
		}
	}
	g.Learn(&Set{Outside: true})
	early, _ := g.Caller(Proof{Port: Loopback})
	g.Learn(NewSet(nil, false, nil))
	// A caller from the time before the node belonged to a cluster is as good as one that comes now.
	if c, refusal := g.Still(early, Loopback); refusal != nil || g.Admit(c, Check) != nil {
		t.Errorf("a connection that is older than the cluster is refused: %v, %v", refusal, g.Admit(c, Check))
	}
	if _, refusal := g.Still(early, Public); refusal != errNoTokensYet {
		t.Errorf("a connection that is older than the cluster is let in: %v", refusal)
	}
	if _, refusal := g.Caller(Proof{Port: Public}); refusal != errNoTokensYet {
		t.Errorf("a port that others can reach lets callers in without tokens: %v", refusal)
	}
	for _, port := range []Port{Trusted, Loopback} {
		c, refusal := g.Caller(Proof{Port: port})
		if refusal != nil || g.Admit(c, Policies) != nil ||
			!c.May(Check, Target{Namespace: "a", Policy: "p", Key: "k"}) {
			t.Errorf("port %d: %v", port, refusal)
		}
		lifts := Target{Namespace: "a", Policy: "p", Key: "k", Tier: "internal", Unlimited: true}
		if c.May(Check, lifts) != (port == Loopback) {
			t.Errorf("port %d: a tier without limits is allowed: %v", port, port != Loopback)
		}
	}
}

func TestGrants(t *testing.T) {
	on := func(ns, policy, key, tier string) Target {
		return Target{Namespace: ns, Policy: policy, Key: key, Tier: tier}
	}
	for _, c := range []struct {
		grant string
		op    Op
		on    Target
		want  bool
	}{
		{"ops=check", Check, on("a", "p", "k", ""), true},
		{"ops=check", Settle, on("a", "p", "k", ""), false},
		{"ops=check", Check, on("a", "p", "k", "gold"), false}, // tiers must be named
		{"tier=gold ops=check", Check, on("a", "p", "k", "gold"), true},
		{"tier=gold ops=check", Check, on("a", "p", "k", "iron"), false},
		{"tier=* ops=check", Check, on("a", "p", "k", "iron"), true},
		{"tier=* ops=check", Check, Target{"a", "p", "k", "internal", true}, false},
		{"tier=internal ops=check", Check, Target{"a", "p", "k", "internal", true}, true},
		{"ns=shop policy=login key=user:*,ip ops=check,settle", Check, on("shop", "login", "user:1", ""), true},
		{"ns=shop policy=login key=user:*,ip ops=check,settle", Check, on("shop", "login", "ip", ""), true},
		{"ns=shop policy=login key=user:*,ip ops=check,settle", Check, on("shop", "login", "ip2", ""), false},
		{"ns=shop policy=login key=user:*,ip ops=check,settle", Check, on("shop", "other", "user:1", ""), false},
		{"ns=shop policy=login key=user:*,ip ops=check,settle", Check, on("default", "login", "user:1", ""), false},
		{"ns=shop ops=observe-keys", ObserveKeys, on("shop", "", "", ""), true},
		{"ns=shop policy=login ops=observe-keys", ObserveKeys, on("shop", "", "", ""), false}, // "" is all of them
		{"ns=shop key=* ops=observe-keys", ObserveKeys, on("shop", "", "", ""), false},
		{"ns=shop ops=observe-keys", ObserveKeys, on("", "", "", ""), false},
		{"ops=admin", Tokens, Target{}, true},
		{"ops=admin", Check, Target{"a", "p", "k", "internal", true}, true},
	} {
		now := &at{time.Unix(1_000_000, 0)}
		text, r := made(t, "x", time.Time{}, c.grant)
		caller, refusal := guardOf(now, r).Caller(Proof{Token: text})
		if refusal != nil || caller.May(c.op, c.on) != c.want {
			t.Errorf("%q, %v on %+v: want %v (%v)", c.grant, c.op, c.on, c.want, refusal)
		}
	}
}

func TestGrantsThatMeanNothingAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "allows nothing",
		"ns=shop":                      "allows nothing",
		"ops=fly":                      `no operation "fly"`,
		"ops=check ops=read":           "twice",
		"shop ops=check":               "is none of",
		"ns=* ops=check":               "star",
		"ns=shop ops=policies":         "about the whole cluster",
		"key=a* ops=check,tokens":      "about the whole cluster",
		"ops=admin,check":              "allows everything",
		"ns=shop ops=admin":            "allows everything",
		"ns= ops=check":                "of 0 bytes",
		"ops=check key=" + long(300):   "of 300 bytes",
		"ops=check policy=" + many(65): "at most 64",
	} {
		if _, err := ParseGrant(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"ops=admin", "ns=a,b policy=p key=k*,l tier=* ops=check,settle,inline",
		"ops=observe,cluster"} {
		g, err := ParseGrant(text)
		if err != nil || g.String() != text {
			t.Errorf("%q is read as %q: %v", text, g.String(), err)
		}
	}
}

func long(n int) string { return strings.Repeat("k", n) }

func many(n int) string { return strings.TrimSuffix(strings.Repeat("p,", n), ",") }

// A caller that may make tokens may not make stronger ones than its own.
func TestNobodyGivesAwayWhatTheyDoNotHave(t *testing.T) {
	for _, c := range []struct {
		own, given string
		want       bool
	}{
		{"ops=admin", "ops=admin", true},
		{"ops=check,tokens", "ops=check", true},
		{"ops=check,tokens", "ops=admin", false},
		{"ops=check,tokens", "ops=read", false},
		{"ops=check,tokens", "tier=gold ops=check", false},
		{"tier=gold,iron ops=check", "tier=gold ops=check", true},
		{"tier=* ops=check", "tier=internal ops=check", false}, // it may lift limits
		{"ns=a,b ops=check", "ns=a ops=check", true},
		{"ns=a ops=check", "ops=check", false},
		{"key=user:* ops=check", "key=user:1,user:2* ops=check", true},
		{"key=user:* ops=check", "key=user* ops=check", false},
		{"key=user:* ops=check", "ops=check", false},
	} {
		now := &at{time.Unix(1_000_000, 0)}
		text, r := made(t, "x", time.Time{}, c.own)
		caller, _ := guardOf(now, r).Caller(Proof{Token: text})
		given, err := ParseGrant(c.given)
		if err != nil || caller.MayGrant(&given) != c.want {
			t.Errorf("%q gives away %q: want %v (%v)", c.own, c.given, c.want, err)
		}
	}
}

func TestARotatedTokenWorksUntilItsOverlapEnds(t *testing.T) {
	now := &at{time.Unix(1_000_000, 0)}
	old, before := made(t, "web", time.Time{}, "ops=check")
	fresh, after := made(t, "web", time.Time{}, "ops=check")
	g := guardOf(now, before)
	standing, _ := g.Caller(Proof{Token: old})
	after.Former = &Former{ID: before.ID, Hash: before.Hash, Ends: now.Add(time.Minute).UnixMicro()}
	g.Learn(NewSet([]Record{after}, true, nil))
	for _, token := range []string{old, fresh} {
		if _, refusal := g.Caller(Proof{Token: token}); refusal != nil {
			t.Errorf("during the overlap: %v", refusal)
		}
	}
	if _, refusal := g.Still(standing, Public); refusal != nil {
		t.Errorf("a connection from before: %v", refusal)
	}
	now.Time = now.Add(time.Minute)
	if _, refusal := g.Caller(Proof{Token: old}); refusal != errWrong {
		t.Errorf("after the overlap: %v", refusal)
	}
	if _, refusal := g.Still(standing, Public); refusal != errWrong {
		t.Errorf("a connection from before, after the overlap: %v", refusal)
	}
	if _, refusal := g.Caller(Proof{Token: fresh}); refusal != nil {
		t.Error(refusal)
	}
}

func TestAnOpenConnectionLosesWhatItsTokenLoses(t *testing.T) {
	now := &at{time.Unix(1_000_000, 0)}
	text, r := made(t, "web", now.Add(time.Hour), "ops=check,settle")
	g := guardOf(now, r)
	c, _ := g.Caller(Proof{Token: text})
	narrower := r
	narrower.Grants = []Grant{{Ops: []string{"check"}}}
	g.Learn(NewSet([]Record{narrower}, true, nil))
	if c, refusal := g.Still(c, Public); refusal != nil || c.MaySomewhere(Settle) {
		t.Errorf("it keeps a grant that was taken away: %v", refusal)
	}
	g.Learn(NewSet(nil, true, nil))
	if _, refusal := g.Still(c, Public); refusal != errWrong {
		t.Errorf("after its revocation: %v", refusal)
	}
	// A client that connected before the first token has to authenticate now.
	open := NewGuard(func() time.Time { return now.Time })
	open.Learn(NewSet(nil, false, nil))
	c, _ = open.Caller(Proof{Port: Loopback})
	open.Learn(NewSet([]Record{r}, true, nil))
	if _, refusal := open.Still(c, Loopback); refusal != errNoToken {
		t.Errorf("a connection from before the first token: %v", refusal)
	}
}

func TestWhatANodeDoesByOldTokens(t *testing.T) {
	now := &at{time.Unix(1_000_000, 0)}
	text, r := made(t, "root", time.Time{}, "ops=admin")
	g := guardOf(now, r)
	now.Time = now.Add(staleAfter + time.Microsecond)
	c, refusal := g.Caller(Proof{Token: text})
	if refusal != nil {
		t.Fatal(refusal)
	}
	for op := Check; op < opCount; op++ {
		served := op == Check || op == Settle || op == Read || op == Inline || op == Lease || op == Edge
		if refusal := g.Admit(c, op); (refusal == nil) != served {
			t.Errorf("%v: %v", op, refusal)
		}
	}
	if refusal := g.Admit(local, Policies); refusal != nil {
		t.Errorf("by the local socket: %v", refusal)
	}
	g.Heard(now.Time)
	if refusal := g.Admit(c, Policies); refusal != nil {
		t.Errorf("after it was heard again: %v", refusal)
	}
	g.Heard(now.Add(-time.Hour)) // late news is no news
	if refusal := g.Admit(c, Policies); refusal != nil {
		t.Errorf("after late news: %v", refusal)
	}
}

func TestRecordsComeBackAsTheyWereWritten(t *testing.T) {
	var records []Record
	for i := range 150 {
		_, r := made(t, fmt.Sprint("app-", i), time.Unix(2_000_000, 0),
			"ns=shop policy=login key=user:* ops=check,settle")
		records = append(records, r)
	}
	body := EncodeBucket(records)
	back, err := DecodeBucket(body)
	if err != nil || len(back) != len(records) || string(EncodeBucket(back)) != string(body) {
		t.Errorf("%d records come back as %d: %v", len(records), len(back), err)
	}
	if most := 192 << 10; len(body) > most { // a bucket of 10,000 tokens in 64 has 157
		t.Errorf("150 usual records take %d bytes, and a document has %d", len(body), most)
	}
	for _, broken := range []string{`{"Records":[{"Name":"a b"}]}`,
		`{"Records":[{"Name":"a","ID":"short","Hash":"AAAA"}]}`, `{"Records":[{"Name":"a","Hash":"AAAA"}]}`,
		`{"Records":[{"Name":"a","Former":{"ID":"x"}}]}`, `[]`, ``} {
		if _, err := DecodeBucket([]byte(broken)); err == nil {
			t.Errorf("%s is read", broken)
		}
	}
}

func FuzzRecords(f *testing.F) {
	_, r := made(f, "web", time.Time{}, "ns=shop ops=check")
	f.Add(EncodeBucket([]Record{r}))
	f.Fuzz(func(t *testing.T, body []byte) {
		records, err := DecodeBucket(body)
		if err != nil {
			return
		}
		NewSet(records, true, nil)
		if _, err := DecodeBucket(EncodeBucket(records)); err != nil {
			t.Errorf("written again it cannot be read: %v", err)
		}
	})
}

func FuzzGrant(f *testing.F) {
	f.Add("ns=shop policy=login key=user:* tier=vendor ops=check,settle")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ParseGrant(text)
		if err != nil {
			return
		}
		if again, err := ParseGrant(g.String()); err != nil || again.String() != g.String() {
			t.Errorf("%q is written as %q: %v", text, g.String(), err)
		}
	})
}

func BenchmarkToken(b *testing.B) {
	now := &at{time.Unix(1_000_000, 0)}
	text, r := made(b, "web", time.Time{}, "ns=shop policy=login key=user:* ops=check,settle")
	records := []Record{r}
	for i := range 9_999 {
		_, other := made(b, fmt.Sprint("other-", i), time.Time{}, "ops=check")
		records = append(records, other)
	}
	g := guardOf(now, records...)
	on := Target{Namespace: "shop", Policy: "login", Key: "user:4711"}
	b.ReportAllocs()
	for b.Loop() {
		c, refusal := g.Caller(Proof{Token: text})
		if refusal == nil {
			refusal = g.Admit(c, Check)
		}
		if refusal != nil || !c.May(Check, on) {
			b.Fatal(refusal)
		}
	}
}
