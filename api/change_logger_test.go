package api

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-io/stint/shard"
)

// A change of a key by hand is logged, with the proven actor, but without key, note and the name that the caller gives;
// traffic is not.
func TestChangesByHandAreLogged(t *testing.T) {
	var log bytes.Buffer
	d := changeLogger{&fakeDecider{decide: allow}, slog.New(slog.NewTextHandler(&log, nil))}
	entries := []shard.Entry{{Policy: "plan", Key: "marker-key"}}
	ctx := context.WithValue(t.Context(), exchangeKey{},
		&exchange{remote: "192.0.2.1:99", header: http.Header{actorHeader: {"marker-name"}}})
	d.Decide(ctx, []shard.Request{
		{Op: shard.AddUsed, Namespace: "shop", Limit: "day", Entries: entries,
			Adjustment: &shard.Adjustment{Amount: -7, Actor: "marker-name", Note: "marker-note"}},
		{Op: shard.AddUsed, Entries: entries, Adjustment: &shard.Adjustment{Amount: -1}}, // of Envoy
		{Op: shard.Check, Entries: entries},
	})
	want := `msg="a key was changed by hand" by=192.0.2.1:99 deed=add namespace=shop policy=plan limit=day amount=-7 ` +
		`shard=3 epoch=17 seq=99`
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, want) ||
		strings.Contains(text, "marker") {
		t.Error(text)
	}
	log.Reset()
	d.Decider = &fakeDecider{decide: func(shard.Request) shard.Result { return shard.Result{Err: errNoCluster} }}
	d.Decide(ctx, []shard.Request{{Op: shard.Reset, Entries: entries, Adjustment: &shard.Adjustment{Actor: "ann"}}})
	if log.Len() > 0 {
		t.Errorf("a change that was refused: %s", log.String())
	}
}
