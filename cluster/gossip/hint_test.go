package gossip

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-io/stint/shard"
)

func wantHint(t *testing.T, hints *Hints, want Hint) {
	t.Helper()
	got, ok := hints.Lookup(want.Shard)
	if want.Node == "" {
		if ok {
			t.Errorf("shard %d: got %+v, want no hint", want.Shard, got)
		}
		return
	}
	if !ok || got != want {
		t.Errorf("shard %d: got %+v, %t, want %+v", want.Shard, got, ok, want)
	}
}

func TestTheHighestEpochWins(t *testing.T) {
	hints := NewHints(4)
	wantHint(t, hints, Hint{Shard: 2})
	for _, step := range []struct {
		hint Hint
		news bool
		want string
	}{
		{Hint{2, 10, "a"}, true, "a"},
		{Hint{2, 10, "b"}, false, "a"}, // an epoch has one owner
		{Hint{2, 9, "b"}, false, "a"},
		{Hint{2, 11, "b"}, true, "b"},
		{Hint{2, 12, ""}, false, "b"},
	} {
		if news := hints.Merge(step.hint); news != step.news {
			t.Errorf("Merge(%+v) = %t, want %t", step.hint, news, step.news)
		}
		if got, _ := hints.Lookup(2); got.Node != step.want {
			t.Errorf("after %+v the owner is %q, want %q", step.hint, got.Node, step.want)
		}
	}
	wantHint(t, hints, Hint{Shard: 1})
}

func TestADroppedHintDoesNotComeBack(t *testing.T) {
	hints := NewHints(1)
	stale := Hint{0, 10, "a"}
	hints.Merge(stale)
	hints.Drop(stale)
	hints.Merge(stale)
	hints.Merge(Hint{0, 9, "b"})
	wantHint(t, hints, Hint{Shard: 0})
	if all := hints.all(); len(all) > 0 {
		t.Errorf("a dropped hint is told on: %+v", all)
	}
	fresh := Hint{0, 11, "c"}
	hints.Merge(fresh)
	hints.Drop(stale) // from a slow caller
	wantHint(t, hints, fresh)
}

func TestHintsOfShardsThatAreNotThereAreIgnored(t *testing.T) {
	hints := NewHints(4)
	for _, id := range []shard.ID{4, math.MaxUint32 - 1} {
		if hints.Merge(Hint{id, 1, "a"}) {
			t.Errorf("a hint of shard %d was taken", id)
		}
		hints.Drop(Hint{id, 1, "a"})
		wantHint(t, hints, Hint{Shard: id})
	}
}

func TestTheSystemShardHasItsHintToo(t *testing.T) {
	hints := NewHints(2)
	last, system := Hint{1, 7, "a"}, Hint{shard.System, 5, "b"}
	if !hints.Merge(last) || !hints.Merge(system) {
		t.Error("a hint was not taken")
	}
	wantHint(t, hints, last)
	wantHint(t, hints, system)
	if all := hints.all(); !reflect.DeepEqual(all, []Hint{last, system}) {
		t.Errorf("told on are %+v", all)
	}
	hints.Drop(system)
	wantHint(t, hints, Hint{Shard: shard.System})
}

func TestNewsAreTold(t *testing.T) {
	hints := NewHints(2)
	var heard []shard.ID
	hints.OnNews(func(id shard.ID) { heard = append(heard, id) })
	hints.Merge(Hint{1, 7, "a"})
	hints.Merge(Hint{1, 6, "b"}) // old
	hints.Merge(Hint{shard.System, 1, "a"})
	if want := []shard.ID{1, shard.System}; !reflect.DeepEqual(heard, want) {
		t.Errorf("heard of %v, want %v", heard, want)
	}
}

func TestTheHighestEpochWinsAmongManyWriters(t *testing.T) {
	hints := NewHints(1)
	var writers sync.WaitGroup
	var last atomic.Uint64
	for range 4 {
		writers.Go(func() {
			for range 300_000 {
				epoch := last.Add(1)
				hints.Merge(Hint{0, epoch, "a"})
				if got, _ := hints.Lookup(0); got.Epoch < epoch {
					t.Errorf("epoch %d fell back to %d", epoch, got.Epoch)
					return
				}
			}
		})
	}
	writers.Wait()
	wantHint(t, hints, Hint{0, last.Load(), "a"})
}

var sampleHints = []Hint{{0, 1, "a"}, {255, math.MaxUint64, "node-2"},
	{math.MaxUint32, 70_000, strings.Repeat("n", 64)}}

func TestHintsComeBackAndDamageIsRefused(t *testing.T) {
	message := encodeHints("cluster", sampleHints)
	cluster, hints, err := decodeHints(message)
	if err != nil || cluster != "cluster" || !reflect.DeepEqual(hints, sampleHints) {
		t.Fatalf("came back as %q, %+v, %v", cluster, hints, err)
	}
	for end := range message {
		if _, _, err := decodeHints(message[:end]); err == nil {
			t.Errorf("the first %d of %d bytes were taken", end, len(message))
		}
	}
	if _, _, err := decodeHints(append(message, 0)); err == nil {
		t.Error("a byte too many was taken")
	}
	many := append(appendText([]byte{hintsFormat}, ""), 0xff, 0xff, 0xff, 0xff, 0x0f)
	if _, _, err := decodeHints(many); err == nil {
		t.Error("a count larger than the message was taken")
	}
}

func TestHintsGoldenBytes(t *testing.T) {
	want := []byte("\x01\x01c\x01\x03\xac\x02\x02n1")
	if got := encodeHints("c", []Hint{{3, 300, "n1"}}); !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q: another layout needs another format byte", got, want)
	}
}

func FuzzHints(f *testing.F) {
	f.Add(encodeHints("cluster", sampleHints))
	f.Add(encodeHints("", nil))
	f.Fuzz(func(t *testing.T, message []byte) {
		cluster, hints, err := decodeHints(message)
		if err != nil {
			return
		}
		again, same, err := decodeHints(encodeHints(cluster, hints))
		if err != nil || again != cluster || !reflect.DeepEqual(same, hints) {
			t.Fatalf("%q, %+v came back as %q, %+v, %v", cluster, hints, again, same, err)
		}
	})
}
