package inbound

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
)

func TestAKeyIsSafeWhateverAStrangerWrites(t *testing.T) {
	for text, want := range map[string]string{
		"user:42":           "user:42",
		"ann@example.com":   "ann@example.com",
		"{acme}/x":          "%7Bacme%7D/x",
		"a|b=c%7B\n\u0085é": "a%7Cb%3Dc%257B%0A%C2%85é",
	} {
		if got, err := Key(text); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "\xff"} {
		if got, err := Key(text); err == nil {
			t.Errorf("%q is the key %q", text, got)
		}
	}
	// Long texts keep their beginning, and differ in their end. No shorter text has the key of a long one.
	long := strings.Repeat("é", 400)
	one, other := mustKey(t, long+"1"), mustKey(t, long+"2")
	if one == other || len(one) > keyMost || !strings.HasPrefix(one, strings.Repeat("é", 200)) {
		t.Errorf("%q and %q", one, other)
	}
	if again := mustKey(t, one); again == one {
		t.Errorf("the text %q is the key of a longer one", one)
	}
}

// A key of parts is the one that the clients in JavaScript and Python make of the same parts
// (client/js/test/stint.test.js).
func TestAKeyOfPartsIsSafeWhateverAStrangerWrites(t *testing.T) {
	key := func(texts ...string) (string, error) {
		var parts []Part[int]
		for i, text := range texts[:len(texts)/2] {
			parts = append(parts, Part[int]{text, func(int) (string, error) { return texts[len(texts)/2+i], nil }})
		}
		return keyOf(parts, 0)
	}
	for want, texts := range map[string][]string{
		"route=login|user=%7Bbob%7D":     {"route", "user", "login", "{bob}"},
		"a=x%7Cb%3Dy|b=z":                {"a", "b", "x|b=y", "z"},
		"a=x|b=y%7Cb%3Dz":                {"a", "b", "x", "y|b=z"},
		"ip=ip:2001:db8::|account=a%2Fb": {"ip", "account", "ip:2001:db8::", "a/b"},
		"a%2Fb=%25%0A\u00e9":             {"a/b", "%\n\u00e9"},
	} {
		if got, err := key(texts...); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", texts, got, err, want)
		}
	}
	for _, text := range []string{"", "\xff"} {
		if got, err := key("a", "b", "x", text); err == nil || !strings.HasPrefix(err.Error(), "b: ") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	long := strings.Repeat("x", 600)
	one, err := key("a", long+"1")
	other, err2 := key("a", long+"2")
	if err != nil || err2 != nil || one == other || len(one) != keyMost || !strings.HasPrefix(one, "a=x") ||
		strings.Contains(one[447:], "=") {
		t.Errorf("%q and %q, %v, %v", one, other, err, err2)
	}
	limits := &answers{d: &stintv1.Decision{Allowed: true}}
	l := newLimiter(limits)
	l.Entries = append(l.Entries, Entry[string]{Policy: "q",
		Parts: []Part[string]{{"who", func(r string) (string, error) { return r, nil }}}})
	if _, _, err := l.Decide(t.Context(), "a=b"); err != nil || limits.asked[0].Entries[0].Key != "a%3Db" ||
		limits.asked[0].Entries[1].Key != "who=a%3Db" {
		t.Errorf("asked: %v, %v", limits.asked, err)
	}
	if _, passes, err := l.Decide(t.Context(), ""); passes || !errors.Is(err, ErrNoKey) {
		t.Errorf("without a value: %v, %v", passes, err)
	}
}

func mustKey(t *testing.T, text string) string {
	t.Helper()
	key, err := Key(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func FuzzKey(f *testing.F) {
	f.Add("user:42", "{a}")
	f.Add(strings.Repeat("%", 300), strings.Repeat("|", 600))
	f.Fuzz(func(t *testing.T, a, b string) {
		one, err := Key(a)
		if err != nil {
			return
		}
		if len(one) > keyMost || strings.ContainsFunc(one, func(r rune) bool {
			return r == '{' || r == '}' || unicode.IsControl(r) || r == unicode.ReplacementChar &&
				!strings.ContainsRune(a, r)
		}) {
			t.Errorf("the key of %q is %q", a, one)
		}
		if other, err := Key(b); err == nil && a != b && one == other {
			t.Errorf("%q and %q have the key %q", a, b, one)
		}
	})
}

// answers is a Checker that gives one answer.
type answers struct {
	d     *stintv1.Decision
	err   error
	asked []*stintv1.CheckRequest
}

func (a *answers) Check(_ context.Context, r *stintv1.CheckRequest) (*stintv1.Decision, error) {
	a.asked = append(a.asked, r)
	return a.d, a.err
}

func newLimiter(limits Checker) *Limiter[string] {
	return &Limiter[string]{Limits: limits, Within: Within,
		Entries: []Entry[string]{{Policy: "p", Key: func(r string) (string, error) { return r, nil }}}}
}

func TestOnlyAClusterThatCannotDecideOpens(t *testing.T) {
	opens := map[string]bool{"unavailable": true, "deadline_exceeded": true, "aborted": true,
		"resource_exhausted": true, "internal": true,
		"invalid_argument": false, "not_found": false, "unauthenticated": false, "permission_denied": false,
		"failed_precondition": false, "unimplemented": false}
	for code, want := range opens {
		l := newLimiter(&answers{err: &client.Error{Code: code}})
		if _, passes, err := l.Decide(t.Context(), "k"); passes || err == nil {
			t.Errorf("%s: closed, and it passes", code)
		}
		l.Open = true
		if _, passes, err := l.Decide(t.Context(), "k"); passes != want || err == nil {
			t.Errorf("%s: open, and it passes: %v", code, passes)
		}
	}
}

func TestWhoHangsUpDoesNotPass(t *testing.T) {
	l := newLimiter(&answers{err: &client.Error{Code: "deadline_exceeded"}})
	l.Open = true
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	if _, passes, _ := l.Decide(ctx, "k"); passes {
		t.Error("a request passes whose sender hung up before the decision")
	}
}

func TestARequestWithoutAKeyIsNotCounted(t *testing.T) {
	limits := &answers{d: &stintv1.Decision{Allowed: true}}
	l := newLimiter(limits)
	l.Open = true
	none := errors.New("not here")
	l.Entries = append(l.Entries, Entry[string]{Policy: "q", Key: func(string) (string, error) { return "", none }})
	if _, passes, err := l.Decide(t.Context(), "k"); passes || !errors.Is(err, ErrNoKey) || !errors.Is(err, none) {
		t.Errorf("it passes: %v, %v", passes, err)
	}
	l.Entries, l.Cost = l.Entries[:1], func(string) (uint64, error) { return 0, none }
	if _, passes, err := l.Decide(t.Context(), "k"); passes || !errors.Is(err, ErrNoKey) {
		t.Errorf("it passes: %v, %v", passes, err)
	}
	if len(limits.asked) != 0 {
		t.Errorf("asked: %v", limits.asked)
	}
}

func TestEachRequestHasAnIDOfItsOwn(t *testing.T) {
	limits := &answers{d: &stintv1.Decision{Allowed: true}}
	l := newLimiter(limits)
	l.Cost = func(string) (uint64, error) { return 7, nil }
	ids := map[string]bool{}
	for range 2 {
		if _, _, err := l.Decide(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range limits.asked {
		ids[r.IdempotencyId] = true
		if got := fmt.Sprint(r.Entries[0].Policy, r.Entries[0].Key, r.Entries[0].GetCost()); got != "pk7" ||
			r.IdempotencyId == "" {
			t.Errorf("asked: %v", r)
		}
	}
	if len(ids) != 2 {
		t.Errorf("ids: %v", ids)
	}
	l.NoIDs = true
	if _, _, err := l.Decide(t.Context(), "k"); err != nil || limits.asked[2].IdempotencyId != "" {
		t.Errorf("without ids: %v, %v", limits.asked[2], err)
	}
}
