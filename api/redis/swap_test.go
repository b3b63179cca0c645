package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-io/stint/shard"
)

// handing is a world with a new owner within every call: another client adds 2 to the key after each request.
type handing struct {
	*world
	others int64
}

func (h *handing) Submit(ctx context.Context, id shard.ID, requests []shard.Request) (results []shard.Result) {
	for i := range requests {
		results = append(results, h.world.Submit(ctx, id, requests[i:i+1])...)
		other := requests[i]
		other.Op, other.Tally = shard.Tally, &shard.TallyTerms{Verb: shard.TallyAdd, Amount: 2}
		h.world.Submit(ctx, id, []shard.Request{other})
		h.others += 2
	}
	return results
}

// GETSET, GETDEL and SET with GET reply with the value that they have replaced, even if others count at the same time:
// nothing is lost.
func TestWhatIsToldIsWhatWasReplaced(t *testing.T) {
	for _, command := range []string{"GETSET k 0", "GETDEL k", "SET k 0 GET", "SET k 0 XX GET", "SET k 0 GET EX 100",
		"GETEX k EXAT 1"} {
		h := &handing{world: newWorld(t)}
		s, _ := serve(t, h.world, func(c *Config) { c.Router = h })
		c := dial(t, s)
		c.ask("SET k 5")
		var told, left int64
		fmt.Sscanf(strings.Trim(c.ask(command), `"`), "%d", &told)
		fmt.Sscanf(strings.Trim(c.ask("GET k"), `"`), "%d", &left)
		if sum := 5 + h.others - 2; told+left != sum { // 2 of them came after the GET
			t.Errorf("%s: told %d, and %d are left, of %d", command, told, left, sum)
		}
	}
}
