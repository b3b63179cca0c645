package redis

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stint-io/stint/limit"
)

func TestThePageListsAllScripts(t *testing.T) {
	page, err := os.ReadFile("../../docs/scripts.md")
	if err != nil {
		t.Fatal(err)
	}
	for sum, script := range scripts {
		first, _, several := strings.Cut(script.name, "limit_count_")
		if name := "`" + script.name + "`"; several {
			if name = "`" + first + "limit_count_1` to `_4`"; !strings.Contains(string(page), name) {
				t.Errorf("the page lacks %s", name)
			}
		} else if !strings.Contains(string(page), name) {
			t.Errorf("the page lacks %s", name)
		}
		if len(sum) != 40 || strings.ToLower(sum) != sum {
			t.Errorf("%q is no sum", sum)
		}
		if verbs[script.name] != nil {
			t.Errorf("%s is the name of a command, too", script.name)
		}
	}
}

// The rates that Traefik makes of averages and periods are exact again.
func TestAFractionIsFoundAgain(t *testing.T) {
	for average := int64(1); average <= 2000; average += 7 {
		for _, period := range []int64{1e3, 1e9, 3e9, 7e9, 60e9, 3600e9, 86400e9} {
			x := float64(average*1e9) / float64(period) / 1e6
			above, below := fraction(x)
			if above*uint64(period) != below*uint64(average)*1000 {
				t.Errorf("%d in %d ns: %d/%d", average, period, above, below)
			}
		}
	}
	for _, x := range []float64{0, -1, 1e-13, 1e13, 1 / float64(limit.MaxCost+1)} {
		if above, below := fraction(x); above != 0 || below != 0 {
			t.Errorf("%v: %d/%d", x, above, below)
		}
	}
}

// Lua's tostring writes these numbers so.
func TestNumbersAreWrittenAsByLua(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 1: "1", -0.5: "-0.5", 1e-5: "1e-05", 0.0001: "0.0001",
		2.5e-7: "2.5e-07", 1.0 / 3: "0.33333333333333", 12345678901234: "12345678901234", 1e14: "1e+14"} {
		if got := string(appendFloat(nil, x)); got != fmt.Sprintf("$%d\r\n%s\r\n", len(want), want) {
			t.Errorf("%v: %q, want %s", x, got, want)
		}
	}
}
