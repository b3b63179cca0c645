package placement

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/shard"
)

// secretsWorld is a cluster of nodes that learn versions of the secrets late, forget them with their disks, and join.
// It has the newest version, and the secrets that each node knows; a node that knows none seals and opens nothing.
type secretsWorld struct {
	t       *testing.T
	rnd     *rand.Rand
	now     time.Time
	table   *Table
	newest  *Secrets
	version uint64
	known   map[string]*Secrets
	at      map[string]uint64
	reports map[string]Report // as the planner heard them last
	drawn   byte
}

func newSecretsWorld(t *testing.T, seed uint64) *secretsWorld {
	w := &secretsWorld{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), now: time.UnixMicro(1_700_000_000_000_000),
		table: NewTable("c", foundersIn("a", "b", "c"), 1, 3), version: 1, known: map[string]*Secrets{},
		at: map[string]uint64{}, reports: map[string]Report{}}
	w.newest = NewSecrets(w.draw())
	return w
}

func (w *secretsWorld) draw() Secret {
	w.drawn++
	return Secret(bytes.Repeat([]byte{w.drawn}, secretBytes))
}

func (w *secretsWorld) write(next *Secrets) {
	read, err := DecodeSecrets(next.Encode())
	if err != nil {
		w.t.Fatal(err)
	}
	w.newest = read
	w.version++
}

// plan takes the next step, and checks what it may change.
func (w *secretsWorld) plan() {
	next, steps := PlanSecrets(w.table, w.newest, w.version, w.reports, w.now)
	if (next == nil) != (len(steps) == 0) {
		w.t.Fatalf("the plan %v is told as %q", next, steps)
	}
	if next != nil {
		w.write(next)
	}
}

func (w *secretsWorld) node() string { return w.table.Nodes[w.rnd.IntN(len(w.table.Nodes))].ID }

func (w *secretsWorld) learn(node string, s *Secrets, version uint64) {
	if version > w.at[node] {
		w.known[node], w.at[node] = s, version
	}
}

func (w *secretsWorld) step() {
	node, other := w.node(), w.node()
	switch w.rnd.IntN(12) {
	case 0, 1:
		w.learn(node, w.newest, w.version) // from the owner of the system shard
	case 2, 3:
		w.learn(node, w.known[other], w.at[other])
	case 4, 5, 6:
		w.reports[node] = Report{Node: node, SecretsVersion: w.at[node]}
	case 7, 8:
		w.plan()
	case 9:
		w.now = w.now.Add(time.Duration(w.rnd.Int64N(int64(20 * 24 * time.Hour))))
	case 10:
		if next, _, err := w.newest.ApplyDrop(); err == nil && w.rnd.IntN(2) == 0 {
			w.write(next)
		} else if next, number, err := w.newest.ApplyRotation(w.draw(), w.now); err == nil {
			if number != w.newest.Sealing[len(w.newest.Sealing)-1].Number+1 {
				w.t.Fatalf("the new secret has number %d", number)
			}
			w.write(next)
		}
	case 11:
		if w.rnd.IntN(3) > 0 { // its disk is new; it is not the only one that knows anything
			w.known[node], w.at[node] = nil, 0
		} else if id := fmt.Sprint("n", 4+w.rnd.IntN(3)); w.table.Node(id) == nil {
			w.table.Nodes = append(w.table.Nodes, Node{ID: id})
		}
	}
}

// check fails if a node seals ids that another one refuses.
func (w *secretsWorld) check() {
	for node, s := range w.known {
		if s == nil {
			continue
		}
		for other, o := range w.known {
			if o != nil &&
				!slices.ContainsFunc(o.Sealing, func(one SealingSecret) bool { return one.Number == s.SealsWith() }) {
				w.t.Fatalf("node %s, with version %d, seals with number %d, which node %s, with version %d, "+
					"does not have", node, w.at[node],
					s.SealsWith(), other, w.at[other])
			}
		}
	}
}

// Whatever a node knows, and whenever: every other node opens what it seals.
func TestEveryNodeOpensWhatAnotherOneSeals(t *testing.T) {
	rotations, drops := 0, 0
	for seed := range uint64(60) {
		w := newSecretsWorld(t, seed)
		for range 1500 {
			before := w.newest
			w.step()
			w.check()
			if w.newest.SealsWith() != before.SealsWith() {
				rotations++
			}
			if len(w.newest.Sealing) < len(before.Sealing) {
				drops++
			}
		}
	}
	if rotations < 60 || drops < 60 {
		t.Errorf("%d rotations and %d drops prove little", rotations, drops)
	}
}

// TestARotationTakesItsStepsWhenAllNodesKnowTheLast: the new secret seals when all know it; the old one ends 31 days
// after all have ceased to seal with it.
func TestARotationTakesItsStepsWhenAllNodesKnowTheLast(t *testing.T) {
	w := newSecretsWorld(t, 0)
	hear := func(nodes ...string) {
		for _, node := range nodes {
			w.reports[node] = Report{Node: node, SecretsVersion: w.version}
		}
	}
	stays := func(why string) {
		t.Helper()
		if next, steps := PlanSecrets(w.table, w.newest, w.version, w.reports, w.now); next != nil {
			t.Fatalf("%s: planned %v", why, steps)
		}
	}
	all := []string{"n1", "n2", "n3"}
	hear(all...)
	stays("one secret")
	next, number, err := w.newest.ApplyRotation(w.draw(), w.now)
	if err != nil || number != 2 || next.SealsWith() != 1 || next.Waiting() != 2 ||
		next.Sealing[1].Made != w.now.UnixMicro() {
		t.Fatalf("%+v, %d, %v", next, number, err)
	}
	w.write(next)
	hear("n1", "n3")
	stays("n2 does not know it")
	if got := Unconfirmed(w.table, w.version, w.reports); !slices.Equal(got, []string{"n2"}) {
		t.Errorf("unconfirmed: %v", got)
	}
	if _, _, err := w.newest.ApplyRotation(w.draw(), w.now); err != ErrRotating {
		t.Errorf("a second rotation: %v", err)
	}
	if _, _, err := w.newest.ApplyDrop(); err != ErrRotating {
		t.Errorf("dropped before the new one seals: %v", err)
	}
	hear(all...)
	w.plan()
	if w.newest.SealsWith() != 2 || w.newest.Sealing[0].Ends != 0 {
		t.Fatalf("all know it: %+v", w.newest)
	}
	if _, _, err := w.newest.ApplyDrop(); err != ErrRotating {
		t.Errorf("dropped while a node may seal with it: %v", err)
	}
	hear("n1", "n2")
	stays("n3 may seal with the old one")
	hear(all...)
	w.plan()
	ends := w.now.Add(31 * 24 * time.Hour)
	if w.newest.Sealing[0].Ends != ends.UnixMicro() || !w.newest.Settled() {
		t.Fatalf("no node seals with it: %+v", w.newest)
	}
	hear(all...)
	w.now = ends.Add(-time.Microsecond)
	stays("the old one opens")
	w.now = ends
	w.plan()
	if len(w.newest.Sealing) != 1 || w.newest.SealsWith() != 2 {
		t.Fatalf("after its end: %+v", w.newest)
	}
	if _, _, err := w.newest.ApplyDrop(); err != ErrOneSecret {
		t.Errorf("the last one: %v", err)
	}
}

func TestDroppedSecretsAreGone(t *testing.T) {
	s := &Secrets{Seals: 5, Sealing: []SealingSecret{{Number: 3, Key: Secret(bytes.Repeat([]byte{3}, 32)), Ends: 1},
		{Number: 4, Key: Secret(bytes.Repeat([]byte{4}, 32)), Ends: 2},
		{Number: 5, Key: Secret(bytes.Repeat([]byte{5}, 32))}}}
	next, dropped, err := s.ApplyDrop()
	if err != nil || !slices.Equal(dropped, []uint32{3, 4}) || len(next.Sealing) != 1 || next.SealsWith() != 5 {
		t.Errorf("%+v, %v, %v", next, dropped, err)
	}
	for range sealingMost {
		s.Sealing = append(s.Sealing, SealingSecret{Number: s.Sealing[len(s.Sealing)-1].Number + 1, Ends: 1})
	}
	s.Seals = s.Sealing[len(s.Sealing)-1].Number
	if s.Sealing[2].Ends = 1; len(s.Sealing) <= sealingMost {
		t.Fatal(len(s.Sealing))
	}
	if _, _, err := s.ApplyRotation(Secret(bytes.Repeat([]byte{6}, 32)), time.Now()); err != ErrManySecrets {
		t.Errorf("a rotation of %d secrets: %v", len(s.Sealing), err)
	}
}

// All counts of hashed keys are under one secret: whatever is done to the others, it stays, and there is never a second
// one.
func TestTheSecretOfKeysIsNeverReplaced(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_000)
	secret := func(b byte) Secret { return Secret(bytes.Repeat([]byte{b}, 32)) }
	s := NewSecrets(secret(1))
	if _, err := DecodeSecrets(s.Encode()); err != nil || bytes.Contains(s.Encode(), []byte("Keys")) {
		t.Errorf("none: %v %s", err, s.Encode())
	}
	s = s.WithKeySecret(secret(7))
	if s.WithKeySecret(secret(8)) != nil {
		t.Error("it is drawn twice")
	}
	rotated, _, err := s.ApplyRotation(secret(2), now)
	if err != nil {
		t.Fatal(err)
	}
	rotated.Seals = 2
	rotated.end(now)
	dropped, _, err := rotated.ApplyDrop()
	if err != nil {
		t.Fatal(err)
	}
	for name, after := range map[string]*Secrets{"rotated": rotated, "dropped": dropped,
		"restored": dropped.AfterRestore(secret(3), now)} {
		read, err := DecodeSecrets(after.Encode())
		if err != nil || !bytes.Equal(read.Keys, secret(7)) || read.WithKeySecret(secret(8)) != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	short := *s
	short.Keys = secret(7)[:31]
	if _, err := DecodeSecrets(short.Encode()); err == nil {
		t.Error("31 bytes are read as a secret")
	}
	if text := fmt.Sprintf("%+v %v", *s, s); strings.Contains(text, "7 7 7") || strings.Contains(text, "\x07\x07") {
		t.Errorf("it is printed: %s", text)
	}
}

// The lost cluster may have taken any step since its backup.
func TestARestoredClusterSealsWithASecretOfItsOwn(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_000)
	fresh := Secret(bytes.Repeat([]byte{9}, 32))
	one := NewSecrets(Secret(bytes.Repeat([]byte{1}, 32)))
	waiting, _, err := one.ApplyRotation(Secret(bytes.Repeat([]byte{2}, 32)), now)
	if err != nil {
		t.Fatal(err)
	}
	for name, before := range map[string]*Secrets{"one": one, "a rotation": waiting} {
		after := before.AfterRestore(fresh, now)
		newest := after.Sealing[len(after.Sealing)-1]
		if after.SealsWith() != newest.Number || !bytes.Equal(newest.Key, fresh) || !after.Settled() {
			t.Errorf("%s: %+v", name, after)
		}
		if _, err := after.Sealer().Open(before.Sealer().Seal(shard.Target{Index: 1}, "default", nil)); err != nil {
			t.Errorf("%s: what the backup knows: %v", name, err)
		}
	}
}

func TestASecretIsNeverPrinted(t *testing.T) {
	secret := Secret(strings.Repeat("sEcReT07", 4))
	secrets := NewSecrets(secret)
	var text bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&text, verb+"\n", secret)
		fmt.Fprintf(&text, verb+"\n", secrets)
	}
	slog.New(slog.NewTextHandler(&text, nil)).Info("founded", "secret", secret, "secrets", secrets)
	slog.New(slog.NewJSONHandler(&text, nil)).Info("founded", "secret", secret)
	if !strings.Contains(text.String(), "(secret)") {
		t.Errorf("got %s", text.String())
	}
	for _, form := range []string{"sEcReT07", base64.StdEncoding.EncodeToString(secret)[:20],
		fmt.Sprintf("%x", []byte(secret))[:16], fmt.Sprintf("%X", []byte(secret))[:16],
		strings.Trim(fmt.Sprint([]byte(secret[:4])), "[]"), "0x73, 0x45"} {
		if strings.Contains(text.String(), form) {
			t.Errorf("%s is printed:\n%s", form, text.String())
		}
	}
}

func TestSecretsAreReadAsTheyWereWritten(t *testing.T) {
	secret := Secret(bytes.Repeat([]byte{7}, 32))
	text := NewSecrets(secret).Encode()
	if want := `{"Sealing":[{"Number":1,"Key":"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="}]}`; string(text) != want {
		t.Errorf("written as %s, want %s", text, want)
	}
	read, err := DecodeSecrets(text)
	if err != nil || !bytes.Equal(read.Sealing[0].Key, secret) {
		t.Errorf("%v, %v", read, err)
	}
	if shown := fmt.Sprintf("%v %+v %#v", read, read, *read); strings.Contains(shown, "7") {
		t.Errorf("shown as %s", shown)
	}
	for _, wrong := range []string{"", "{}", `{"Sealing":[]}`, `{"Sealing":[{"Number":1,"Key":"Bwc="}]}`,
		strings.Replace(string(text), `:1,`, `:0,`, 1), strings.TrimSuffix(string(text), "}") + `,"Seals":2}`,
		strings.Replace(string(text), `[{`, string(text)[11:len(text)-2]+`,{`, 1)} {
		if _, err := DecodeSecrets([]byte(wrong)); err == nil {
			t.Errorf("%s was read", wrong)
		}
	}

}

func FuzzDecodeSecrets(f *testing.F) {
	f.Add(NewSecrets(Secret(bytes.Repeat([]byte{7}, 32))).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSecrets(b)
		if err != nil {
			return
		}
		again, err := DecodeSecrets(s.Encode())
		if err != nil || !bytes.Equal(again.Encode(), s.Encode()) {
			t.Errorf("%q: %v", b, err)
		}
	})
}
