package slot

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestAMapComesBackFromJSON: with slots that have moved, too. Runs of too few or too many slots are refused.
func TestAMapComesBackFromJSON(t *testing.T) {
	m := Even(3)
	m[0], m[500], m[Count-1] = 2, 0, 1
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back Map
	if err := json.Unmarshal(text, &back); err != nil || back != *m {
		t.Errorf("%s came back as another map: %v", text, err)
	}
	for _, wrong := range []string{`[]`, `[[0,1023]]`, `[[0,1025]]`, `[[0,1024],[1,1]]`,
		`[[0,4294967295],[0,4294967295]]`, `{}`, `[[0]]`} {
		if err := json.Unmarshal([]byte(wrong), &back); err == nil {
			t.Errorf("%s is a map", wrong)
		}
	}
}

// TestRangesAreTheSlotsOfAShard: each slot is in a range of its shard and of no other.
func TestRangesAreTheSlotsOfAShard(t *testing.T) {
	m := Even(4)
	m[7], m[8], m[900] = 3, 3, 0
	var all []ID
	for shard := range uint32(5) {
		before := len(all)
		for _, r := range m.Ranges(shard) {
			for at := r.First; at <= r.Last; at++ {
				if m[at] != shard {
					t.Errorf("slot %d is shard %d's, and in a range of shard %d", at, m[at], shard)
				}
				all = append(all, at)
			}
		}
		if owned := m.Owned(shard); owned != len(all)-before {
			t.Errorf("shard %d has %d slots, and %d in ranges", shard, owned, len(all)-before)
		}
	}
	if slices.Sort(all); len(all) != Count || len(slices.Compact(all)) != Count {
		t.Errorf("%d slots are in ranges", len(all))
	}
}
