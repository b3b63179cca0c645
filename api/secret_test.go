package api

import (
	"context"
	"strings"
	"testing"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

// fakeSecrets records the actors of changes of the secrets.
type fakeSecrets struct {
	secrets     placement.Secrets
	unconfirmed []string
	who         []string
	err         error
}

var _ SecretAdmin = (*fakeSecrets)(nil)

func (f *fakeSecrets) Secrets(context.Context) (*placement.Secrets, []string, error) {
	return &f.secrets, f.unconfirmed, f.err
}

func (f *fakeSecrets) Rotate(_ context.Context, who string) (uint32, error) {
	f.who = append(f.who, "rotate "+who)
	return 2, f.err
}

func (f *fakeSecrets) DropOld(_ context.Context, who string) ([]uint32, error) {
	f.who = append(f.who, "drop "+who)
	return []uint32{1}, f.err
}

func TestSecretsAreListedRotatedAndDropped(t *testing.T) {
	w := newWorld(t)
	w.secrets.unconfirmed = []string{"n3"}
	w.secrets.secrets = placement.Secrets{Seals: 2, Sealing: []placement.SealingSecret{
		{Number: 1, Ends: 1_700_000_000e6}, {Number: 2, Made: 1_600_000_000e6}, {Number: 3}}}
	for call, want := range map[string]string{
		"List": `{"secrets":[{"number":1,"state":"opens","endsAt":"2023-11-14T22:13:20Z"},` +
			`{"number":2,"madeAt":"2020-09-13T12:26:40Z","state":"seals"},{"number":3,"state":"waits"}],` +
			`"waitingFor":["n3"]}`,
		"Rotate":  `{"number":2}`,
		"DropOld": `{"numbers":[1]}`,
	} {
		code, _, answer := w.post("SecretService/"+call, `{}`)
		if code != 200 || strings.ReplaceAll(answer, " ", "") != want {
			t.Errorf("%s: %d %s, want %s", call, code, answer, want)
		}
	}
	if got := strings.Join(w.secrets.who, ", "); got != "rotate 127.0.0.1, drop 127.0.0.1" &&
		got != "drop 127.0.0.1, rotate 127.0.0.1" {
		t.Errorf("asked: %s", got)
	}
	w.secrets.err = &shard.Error{Code: shard.Conflict, Message: "a rotation is under way"}
	if code, _, answer := w.post("SecretService/Rotate", `{}`); code != 400 ||
		!strings.Contains(answer, `"failed_precondition"`) {
		t.Errorf("%d %s", code, answer)
	}
}

// An id that a node cannot read is refused with the reason, and nothing is decided.
func TestAnIDIsRefusedByWhatIsKnownOfItsSecret(t *testing.T) {
	of := func(seals uint32, numbers ...uint32) *shard.Sealer {
		var all []shard.SealingSecret
		for _, n := range numbers {
			all = append(all, shard.SealingSecret{Number: n, Key: [32]byte{byte(n)}})
		}
		return shard.NewSealer(seals, all...)
	}
	hold := shard.Target{Hold: true, Index: 1, DecidedAt: noon}
	id := func(s *shard.Sealer) string {
		return s.Seal(hold, "default", []shard.Entry{{Policy: "per-ip", Key: "k", Cost: 1}})
	}
	for _, c := range []struct {
		name, id      string
		knows, newest *shard.Sealer
		code          int
		says          string
	}{
		{"it seals", id(of(2, 2)), of(2, 1, 2), nil, 200, ""},
		{"it opens", id(of(1, 1)), of(2, 1, 2), nil, 200, ""},
		{"it was dropped", id(of(1, 1)), of(2, 2), nil, 400, `"failed_precondition"`},
		{"it was dropped", id(of(1, 1)), of(2, 2), nil, 400,
			"hold_id: is sealed with a secret that the cluster has dropped"},
		{"it is new here", id(of(3, 3)), of(2, 2), of(3, 2, 3), 200, ""},
		{"it is new here and was dropped since", id(of(3, 3)), of(2, 2), of(4, 4), 400, "has dropped"},
		{"nobody can be asked", id(of(3, 3)), of(2, 2), nil, 503, `"unavailable"`},
		{"nobody has it", id(of(3, 3)), of(2, 2), of(2, 2), 400, "is not an id that this cluster has given out"},
		{"another cluster's", id(of(2, 2)), shard.NewSealer(2, shard.SealingSecret{Number: 2}), nil, 400,
			`"invalid_argument"`},
	} {
		w := newWorld(t)
		w.sealer, w.newest = c.knows, c.newest
		code, _, answer := w.post("LimitService/Settle", `{"holdId":"`+c.id+`","cancel":{}}`)
		if code != c.code || !strings.Contains(answer, c.says) || strings.Contains(answer, `"maybeApplied":true`) {
			t.Errorf("%s: %d %s, want %d %s", c.name, code, answer, c.code, c.says)
		}
		if decided := len(w.decider.requests()); decided != 0 && c.code != 200 {
			t.Errorf("%s: %d requests are decided", c.name, decided)
		}
	}
}

// The answer to an extension has an id that is good for as long as the hold: the secret that sealed the first one may
// end before.
func TestAnExtensionSealsTheIDAnew(t *testing.T) {
	w := newWorld(t)
	w.decider.decide = hold
	w.sealer = shard.NewSealer(2, shard.SealingSecret{Number: 1, Key: [32]byte{1, 2, 3}},
		shard.SealingSecret{Number: 2})
	d := w.decision("LimitService/Settle", settling(aHold, `"extend":{"ttl":"60s"}`))
	was, err := testSealer.Open(idOfTest(aHold))
	if err != nil {
		t.Fatal(err)
	}
	if want := w.sealer.Seal(was.Settlement.Target, was.Namespace, was.Entries); d.HoldID != want ||
		d.HoldID == idOfTest(aHold) {
		t.Errorf("the id is %q, want %q", d.HoldID, want)
	}
}
