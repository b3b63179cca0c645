package replay

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/limit"
)

// However the columns are joined, every decision is in the column of its time, and none is lost.
func TestTimelineAgainstACountFromScratch(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var line timeline
		var times []limit.Time
		at := limit.Time(random.Int64N(1 << 50))
		for range 1 + random.IntN(300) {
			at += limit.Time(random.Int64N(1 << random.IntN(50)))
			times = append(times, at)
			line.add(at, at%2 == 0)
		}
		want := make([]Column, len(line.columns))
		for _, at := range times {
			c := &want[(at-line.start)/limit.Time(line.width)]
			if at%2 == 0 {
				c.Admitted++
			} else {
				c.Denied++
			}
		}
		if len(want) > columnsMax || line.start%limit.Time(line.width) != 0 {
			t.Fatalf("%d columns of %d from %d", len(want), line.width, line.start)
		}
		for i := range want {
			if line.columns[i] != want[i] {
				t.Fatalf("column %d of %d µs is %+v, want %+v", i, line.width, line.columns[i], want[i])
			}
		}
	}
}

func TestWidthsAreMultiples(t *testing.T) {
	for i := 1; i < len(widths); i++ {
		if widths[i]%widths[i-1] != 0 {
			t.Errorf("%v is no multiple of %v", widths[i], widths[i-1])
		}
	}
}

func TestPlot(t *testing.T) {
	start := time.Date(2016, 12, 10, 6, 55, 0, 0, time.UTC)
	log := Log{OutOfOrder: 3, Reading: Reading{Lines: 200, Events: 90, Skipped: 109, Unreadable: 1, InFuture: 1,
		FirstUnreadable: "auth.log:7: cut short"}}
	report := Report{Log: log, Policies: []PolicyReport{{Policy: "login", Events: 90, Admitted: 19, Denied: 71,
		DeniedBy:    []LimitDenials{{"account-15m", 71}},
		FirstDenial: &Denial{Time: start.Add(time.Minute), Key: "192.0.2.7", Line: 30},
		TopDenied:   []KeyDenials{{"192.0.2.7", 70}, {"192.0.2.8", 1}},
		Timeline: &Timeline{Start: start, WidthMillis: 300_000,
			Columns: []Column{{1, 0}, {0, 0}, {8, 40}, {10, 30}, {0, 1}}}}}}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	want := `
POLICY  EVENTS  ADMITTED  DENIED  FIRST DENIAL
login   90      19        71      2016-12-10T06:56:00Z  192.0.2.7  (line 30)

login

  admitted │▁ ▂▂ │ at most 10
  denied   │  █▆▁│ at most 40
           └─────┘ in 5m
           2016-12-10 06:55:00 to 2016-12-10 07:20:00 UTC

  LIMIT        DENIED
  account-15m  71

  KEY        DENIED
  192.0.2.7  70
  192.0.2.8  1

Lines: 200. Events: 90, of other things: 109, that could not be read: 1.
The first that could not be read: auth.log:7: cut short
1 event lies in the future: --year says in which year the log begins.
3 events were earlier than the one before them and were decided at its time.
`
	if got := "\n" + text.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
