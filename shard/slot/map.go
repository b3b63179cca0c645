package slot

import (
	"encoding/json"
	"fmt"
)

// Map is the shard of each slot. It is immutable, so any number of goroutines may read it.
type Map [Count]uint32

// Even returns the Map of a new cluster: each shard has one range of slots, all ranges are about equally long, and
// shards of lower numbers have lower slots. shards is 1 to Count.
func Even(shards uint32) *Map {
	m := new(Map)
	for i := range m {
		m[i] = uint32(i) * shards / Count
	}
	return m
}

// Of returns the shard of a key.
func (m *Map) Of(namespace, key string) uint32 { return m[Of(namespace, key)] }

// Owned returns how many slots a shard has.
func (m *Map) Owned(shard uint32) (count int) {
	for i := range m {
		if m[i] == shard {
			count++
		}
	}
	return count
}

// Range is a range of slots, both ends included.
type Range struct{ First, Last ID }

// Ranges lists the slots of a shard.
func (m *Map) Ranges(shard uint32) (ranges []Range) {
	for i := range m {
		switch last := len(ranges) - 1; {
		case m[i] != shard:
		case last >= 0 && int(ranges[last].Last)+1 == i:
			ranges[last].Last = ID(i)
		default:
			ranges = append(ranges, Range{ID(i), ID(i)})
		}
	}
	return ranges
}

// run is a number of consecutive slots of a shard, as a pair in JSON.
type run [2]uint32

// MarshalJSON writes runs of slots, from slot 0 on: [shard, number of slots].
func (m *Map) MarshalJSON() ([]byte, error) {
	var runs []run
	for _, shard := range m {
		if last := len(runs) - 1; last >= 0 && runs[last][0] == shard {
			runs[last][1]++
		} else {
			runs = append(runs, run{shard, 1})
		}
	}
	return json.Marshal(runs)
}

// UnmarshalJSON reads the output of MarshalJSON. The runs must cover exactly all slots. After an error, the
// Map may have some of them.
func (m *Map) UnmarshalJSON(b []byte) error {
	var runs []run
	if err := json.Unmarshal(b, &runs); err != nil {
		return err
	}
	at := uint64(0)
	for _, r := range runs {
		if at+uint64(r[1]) > Count {
			return fmt.Errorf("runs of more than %d slots", Count)
		}
		for range r[1] {
			m[at] = r[0]
			at++
		}
	}
	if at != Count {
		return fmt.Errorf("runs of %d slots, there are %d", at, Count)
	}
	return nil
}
