package examples

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// The stored {"count":42,"resetAt":1706745600000} can be read by people here too: the same two numbers under two names,
// for the key that was asked for.
func TestSeedRow11TheStateIsTwoNumbers(t *testing.T) {
	c := node(t)
	counted := c.count(entry("stoma", "row 11", "cost", 42)).limit(t, "window")
	_, body := c.call("LimitService/Get", object{"entries": []object{entry("stoma", "row 11")}})
	var answer struct{ Limits []map[string]any }
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Limits) != 1 {
		t.Fatalf("%v in %s", err, body)
	}
	l := answer.Limits[0]
	if resetAt, _ := time.Parse(time.RFC3339, l["resetAt"].(string)); l["used"] != "42" ||
		!resetAt.Equal(counted.ResetAt) || l["key"] != "row 11" {
		t.Errorf("%s, want 42 until %v", body, counted.ResetAt)
	}
}

// Whoever looks after a key sees how it was counted: the key itself and the arithmetic, in words.
func TestSeedRow62TheStateIsExplained(t *testing.T) {
	c := node(t)
	c.check("stoma", "row 62")
	c.check("stoma", "row 62")
	var answer struct {
		Limits      []status
		Explanation string
	}
	c.must("LimitService/Get", object{"entries": []object{entry("stoma", "row 62")}, "explain": true}, &answer)
	if find(t, answer.Limits, "window").Key != "row 62" || find(t, answer.Limits, "window").Used != 2 {
		t.Errorf("two requests of one client are %+v", answer.Limits)
	}
	for _, want := range []string{"row 62", "stoma/window", "2"} {
		if !strings.Contains(answer.Explanation, want) {
			t.Errorf("%q is not in the explanation: %s", want, answer.Explanation)
		}
	}
}
