package shard

import (
	"encoding/json"
	"reflect"
	"testing"
)

// Positions are in the logs of shards: a later release reads them.
func TestThePositionOfAPushIsGolden(t *testing.T) {
	for golden, want := range map[string]PushPosition{
		`{"Done":7}`: {Done: 7},
		`{"Done":7,"Skipped":{"At":6,"Bills":2,"Newest":[{"ID":"use_1","Why":"no"}]}}`: {Done: 7,
			Skipped: &SkippedBills{At: 6, Bills: 2,
				Newest: []SkippedBill{{ID: "use_1", Why: "no"}}}},
		`{"Done":7,"Through":9,"From":{"Place":3,"After":"k"},"Tried":8}`: {Done: 7, Through: 9,
			From: UsagePlace{Place: 3, After: "k"}, Tried: 8},
	} {
		var read PushPosition
		text, err := want.Encode()
		if wrong := json.Unmarshal([]byte(golden), &read); err != nil || wrong != nil || string(text) != golden ||
			!reflect.DeepEqual(read, want) {
			t.Errorf("%s is read as %+v (%v), and %+v is written as %s (%v)", golden, read, wrong, want, text, err)
		}
	}
}
