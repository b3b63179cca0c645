package api

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/shard"
)

// keptTokens are the records of a cluster, in memory. Its tests change them at the places where another node could.
type keptTokens struct {
	TokenAdmin
	records []auth.Record
	texts   map[string]string
	broken  int                 // from the so manieth revocation on each fails; 0: none
	revoked func(name string)   // after each revocation; may be nil
	made    func(r auth.Record) // after each creation and rotation; may be nil
}

func (k *keptTokens) Create(_ context.Context, r auth.Record, _ bool, who string) (text string, err error) {
	if text, err = auth.NewToken(rand.Reader); err == nil {
		err = r.SetToken(text)
	}
	r.Creator = who
	k.records, k.texts[r.Name] = append(k.records, r), text
	if k.made != nil {
		k.made(r)
	}
	return text, err
}

func (k *keptTokens) Rotate(
	_ context.Context, name string, _ time.Duration, may func(*auth.Record) error, _ string,
) (text string, err error) {
	i := slices.IndexFunc(k.records, func(r auth.Record) bool { return r.Name == name })
	if err := may(&k.records[i]); err != nil {
		return "", err
	}
	if text, err = auth.NewToken(rand.Reader); err == nil {
		err = k.records[i].SetToken(text)
	}
	k.texts[name] = text
	if k.made != nil {
		k.made(k.records[i])
	}
	return text, err
}

func (k *keptTokens) Records(context.Context) ([]auth.Record, error) {
	return slices.Clone(k.records), nil
}

func (k *keptTokens) Revoke(_ context.Context, name string, may func(*auth.Record) error, _ string) error {
	if k.broken > 0 {
		if k.broken--; k.broken == 0 {
			k.broken = 1
			return errors.New("no majority")
		}
	}
	i := slices.IndexFunc(k.records, func(r auth.Record) bool { return r.Name == name })
	if i < 0 {
		return shard.Invalidf("name", "no token or role is named %q", name)
	}
	if err := may(&k.records[i]); err != nil {
		return err
	}
	k.records = slices.Delete(k.records, i, i+1)
	if k.revoked != nil {
		k.revoked(name)
	}
	return nil
}

func (k *keptTokens) names() (names []string) {
	for i := range k.records {
		names = append(names, k.records[i].Name)
	}
	slices.Sort(names)
	return names
}

// as returns the context of a call by the token with a name; "": on the local socket.
func (k *keptTokens) as(name string) context.Context {
	x := &exchange{caller: auth.Anybody()}
	if name != "" {
		guard := auth.NewGuard(time.Now)
		guard.Learn(auth.NewSet(slices.Clone(k.records), true, nil))
		guard.Heard(time.Now())
		caller, refusal := guard.Caller(auth.Proof{Token: k.texts[name]})
		if refusal != nil {
			panic(refusal)
		}
		x.caller = caller
	}
	return context.WithValue(context.Background(), exchangeKey{}, x)
}

func (k *keptTokens) create(maker, name string) error {
	ctx := k.as(maker)
	_, err := tokenService{k}.create(ctx, callerIn(ctx).Name(), &stintv1.CreateTokenRequest{Name: name,
		Grants: []*stintv1.Grant{{Ops: []string{"check", "tokens"}}}})
	return err
}

func (k *keptTokens) revoke(name string, children bool) ([]string, error) {
	ctx := k.as("")
	answer, err := tokenService{k}.revoke(ctx, "local", &stintv1.RevokeTokenRequest{Name: name, Children: children})
	return answer.GetChildren(), err
}

// newFamily returns the tokens a, which has made aa and ab, aa, which has made aaa, and b.
func newFamily(t *testing.T) *keptTokens {
	k := &keptTokens{texts: map[string]string{}}
	for _, made := range [][2]string{{"", "a"}, {"", "b"}, {"a", "aa"}, {"a", "ab"}, {"aa", "aaa"}} {
		if err := k.create(made[0], made[1]); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// TestATokenEndsWithAllThatItHasMade: also with what was made by a token that has ended since, and with what is made
// while they end. A call that fails on the way is repeated, until none is left.
func TestATokenEndsWithAllThatItHasMade(t *testing.T) {
	k := newFamily(t)
	if children, err := k.revoke("aa", false); err != nil || !slices.Equal(children, []string{"aaa"}) {
		t.Errorf("aa has made %v, %v", children, err)
	}
	if err := k.create("aaa", "late"); err != nil {
		t.Fatal(err)
	}
	k.broken = 2
	if _, err := k.revoke("a", true); err == nil || slices.Contains(k.names(), "a") {
		t.Errorf("a failed change: %v, left are %v", err, k.names())
	}
	k.broken = 0
	k.revoked = func(name string) {
		if name == "ab" {
			k.records = append(k.records, auth.Record{Name: "more", Line: []string{"a", "ab"}})
		}
	}
	if children, err := k.revoke("a", true); err != nil || !slices.Equal(children, []string{"ab", "late", "more"}) &&
		!slices.Equal(children, []string{"aaa", "ab", "late", "more"}) {
		t.Errorf("repeated: %v, %v", children, err)
	}
	if left := k.names(); !slices.Equal(left, []string{"b"}) {
		t.Errorf("left are %v", left)
	}
	if _, err := k.revoke("a", true); err == nil {
		t.Error("nothing was there to end, and it was not said")
	}
}

func (k *keptTokens) rotate(by, name string) (string, error) {
	ctx := k.as(by)
	answer, err := tokenService{k}.rotate(ctx, callerIn(ctx).Name(), &stintv1.RotateTokenRequest{Name: name})
	return answer.GetToken(), err
}

// Whoever rotates a token knows its secret from then on. So it ends with those that this one has made, and so does
// what it has made.
func TestATokenEndsWithThoseThatItHasRotated(t *testing.T) {
	k := newFamily(t)
	for _, by := range [][2]string{{"", "ab"}, {"b", "aa"}, {"b", "b"}, {"aa", "b"}} {
		if _, err := k.rotate(by[0], by[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.create("aa", "late"); err != nil {
		t.Fatal(err)
	}
	if children, err := k.revoke("ab", false); err != nil || len(children) > 0 {
		t.Errorf("ab was rotated on the node's own machine, and knows %v, %v", children, err)
	}
	if children, err := k.revoke("b", true); err != nil || !slices.Equal(children, []string{"aa", "late"}) {
		t.Errorf("b knows %v, %v", children, err)
	}
	if left := k.names(); !slices.Equal(left, []string{"a", "aaa"}) {
		t.Errorf("left are %v", left)
	}
}

// A node that has not heard of the end of a token yet rotates another one for it, and does not give the secret away.
func TestATokenThatHasEndedLearnsNoSecret(t *testing.T) {
	k := newFamily(t)
	k.made = func(auth.Record) {
		k.records = slices.DeleteFunc(k.records, func(r auth.Record) bool { return r.Name == "b" })
	}
	var refusal *auth.Refusal
	if text, err := k.rotate("b", "aa"); !errors.As(err, &refusal) || refusal.Kind != auth.Unproven || text != "" {
		t.Errorf("one that has ended learns %q, %v", text, err)
	}
}

// TestATokenThatHasEndedMakesNone: a node that has not heard of its end yet takes the new one back.
func TestATokenThatHasEndedMakesNone(t *testing.T) {
	k := newFamily(t)
	k.made = func(r auth.Record) {
		k.records = slices.DeleteFunc(k.records, func(r auth.Record) bool { return r.Name == "aa" })
	}
	var refusal *auth.Refusal
	if err := k.create("aa", "late"); !errors.As(err, &refusal) || refusal.Kind != auth.Unproven ||
		slices.Contains(k.names(), "late") {
		t.Errorf("made by one that has ended: %v, left are %v", err, k.names())
	}
}
