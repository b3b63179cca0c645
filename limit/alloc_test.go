package limit_test

import (
	"testing"

	"github.com/stint-io/stint/limit"
)

// A decision allocates nothing, and nor does encoding its State, except that a log and buckets copy their list for a
// new instant.
func TestADecisionAllocatesNothing(t *testing.T) {
	buffer := make([]byte, 0, 256)
	for _, l := range small {
		s, _ := limit.Take(l, limit.State{}, 1, 1000)
		got := testing.AllocsPerRun(100, func() {
			taken, _ := limit.Take(l, s, 1, 1000)
			limit.Take(l, s, limit.MaxCost, 1000)
			limit.Peek(l, taken, 1, 1001)
			limit.Status(l, taken, 1001)
			limit.ForgetAt(l, taken)
			limit.AppendState(buffer, taken)
		})
		if got != 0 {
			t.Errorf("%+v: %v allocations", l, got)
		}
	}
}
