package placement

import (
	"testing"

	"github.com/stint-io/stint/shard"
)

// saying returns a replica at seq 100 with these sums at seq 10, 20, 30 and so on; 0: no sum there.
func saying(sums ...uint64) Testimony {
	t := Testimony{Epoch: 5, Seq: 100}
	for i, sum := range sums {
		if sum != 0 {
			t.Sums = append(t.Sums, shard.SumAt{Version: shard.SumVersion, Epoch: 5,
				Seq: uint64(10 * (i + 1)), Sum: sum})
		}
	}
	return t
}

func TestEachReplicaJudgesItselfByTheMajority(t *testing.T) {
	three, five := []string{"a", "b", "c"}, []string{"a", "b", "c", "d", "e"}
	newer := saying(8)
	newer.Sums[0].Version++
	late := saying()
	late.Seq = 9
	restored := saying()
	for _, c := range []struct {
		name   string
		voters []string
		said   map[string]Testimony
		want   Verdict // for replica a
		seq    uint64
	}{
		{"all are equal", three, map[string]Testimony{"a": saying(7), "b": saying(7), "c": saying(7)}, Agreed, 10},
		{"one other is enough", three, map[string]Testimony{"a": saying(7), "b": saying(7)}, Agreed, 10},
		{"another one is bad", three, map[string]Testimony{"a": saying(7), "b": saying(8), "c": saying(7)}, Agreed, 10},
		{"two against one", three, map[string]Testimony{"a": saying(7), "b": saying(8), "c": saying(8)}, Convicted, 10},
		{"outvoted once, and equal since", three,
			map[string]Testimony{"a": saying(7, 9), "b": saying(8, 9), "c": saying(8, 9)}, Convicted, 10},
		{"one against one is no majority", three, map[string]Testimony{"a": saying(7), "b": saying(8)}, Disputed, 10},
		{"each has another", three, map[string]Testimony{"a": saying(7), "b": saying(8), "c": saying(9)}, Disputed, 10},
		{"two against two of five", five, map[string]Testimony{"a": saying(7), "b": saying(7), "c": saying(8),
			"d": saying(8)},
			Disputed, 10},
		{"two against three of five", five, map[string]Testimony{"a": saying(7), "b": saying(7), "c": saying(8),
			"d": saying(8), "e": saying(8)}, Convicted, 10},
		{"who has not been there yet is awaited", three,
			map[string]Testimony{"a": saying(7), "b": saying(8), "c": late}, Unjudged, 0},
		{"who was restored behind it is not", three,
			map[string]Testimony{"a": saying(7), "b": saying(8), "c": restored}, Disputed, 10},
		{"nobody else has said anything", three, map[string]Testimony{"a": saying(7)}, Unjudged, 0},
		{"nothing is said", three, map[string]Testimony{"b": saying(7), "c": saying(7)}, Unjudged, 0},
		{"at another place", three, map[string]Testimony{"a": saying(7), "b": saying(0, 7), "c": saying(0, 7)},
			Unjudged, 0},
		{"a sum of another version says nothing", three, map[string]Testimony{"a": saying(7), "b": newer, "c": newer},
			Unjudged, 0},
		{"the newest place counts", three, map[string]Testimony{"a": saying(7, 8), "b": saying(7, 9)}, Disputed, 20},
		{"a dispute that was decided since", three, map[string]Testimony{"a": saying(7, 8), "b": saying(9, 8)},
			Agreed, 20},
		{"one voter has nobody to disagree with", []string{"a"}, map[string]Testimony{"a": saying(7), "b": saying(8)},
			Agreed, 10},
		{"a learner is outvoted", []string{"b", "c", "d"},
			map[string]Testimony{"a": saying(7), "b": saying(8), "c": saying(8)}, Convicted, 10},
		{"a learner disputes nothing", []string{"b", "c", "d"}, map[string]Testimony{"a": saying(7), "b": saying(8)},
			Unjudged, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, at := Judge("a", c.voters, c.said)
			if got != c.want || at.Seq != c.seq {
				t.Errorf("verdict %d at seq %d, want %d at %d", got, at.Seq, c.want, c.seq)
			}
		})
	}
}
