package replay

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

const opensshLog = "../../../../shared/data/openssh_2k.log"

func openssh(t *testing.T) string {
	t.Helper()
	log, err := os.ReadFile(opensshLog)
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s is absent: the replay of the real log is not tested here", opensshLog)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(log)
}

// The replay of a real log equals, event for event, the result of a plain script that shares no code with the product.
func TestRealLogAgainstAPlainScript(t *testing.T) {
	log := openssh(t)
	for _, tt := range []struct {
		name, limit string
		script      func(hits []failure) []bool
	}{
		{"sliding log", "{name: x, quota: 5, sliding_log: {period: 10m}}", fivePerTenMinutes},
		{"fixed window", "{name: x, quota: 10, fixed_window: {period: 1h, anchor: first_hit}}", tenPerHourFromFirstHit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hits := failures(log)
			if len(hits) != 528 {
				t.Fatalf("the script finds %d events, want 528", len(hits))
			}
			want := tt.script(hits)
			set, err := policy.Parse("test", []byte("policies: {p: {limits: ["+tt.limit+"]}}"))
			if err != nil {
				t.Fatal(err)
			}
			keys, got := verdicts(t, log, set)
			if len(got) != len(want) {
				t.Fatalf("the replay has %d events, the script %d", len(got), len(want))
			}
			denied := 0
			for i := range want {
				if keys[i] != hits[i].source || got[i] != want[i] {
					t.Errorf("event %d: the replay says %s %v, the script %s %v",
						i, keys[i], got[i], hits[i].source, want[i])
				}
				if !want[i] {
					denied++
				}
			}
			if denied == 0 || denied == len(want) {
				t.Fatalf("%d of %d denied: that compares nothing", denied, len(want))
			}
			t.Logf("%d events, %d admitted, %d denied", len(want), len(want)-denied, denied)
		})
	}
}

func verdicts(t *testing.T, log string, set *policy.Set) (keys []string, admitted []bool) {
	t.Helper()
	events, err := Open("log", strings.NewReader(log), Options{Year: 2016})
	if err != nil {
		t.Fatal(err)
	}
	l, err := newPolicyRun(set, set.Names()[0], "")
	if err != nil {
		t.Fatal(err)
	}
	err = events.each(func(event Event, now limit.Time) error {
		allowed, err := l.decide(event, now)
		keys, admitted = append(keys, event.Key), append(admitted, allowed)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys, admitted
}

// The plain script: one regular expression over the whole file, seconds since midnight of the log's only day, and for
// each address the list of its admitted events.

type failure struct {
	second int
	source string
}

var failurePattern = regexp.MustCompile(
	`(?m)^Dec 10 (\d\d):(\d\d):(\d\d) \S+ sshd\[\d+\]: (?:message repeated (\d+) times: ` +
		`\[ )?Failed password for .* from (\S+) port`)

func failures(log string) (hits []failure) {
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	for _, m := range failurePattern.FindAllStringSubmatch(log, -1) {
		for range max(1, number(m[4])) {
			hits = append(hits, failure{number(m[1])*3600 + number(m[2])*60 + number(m[3]), m[5]})
		}
	}
	return hits
}

func fivePerTenMinutes(hits []failure) (admitted []bool) {
	spent := map[string][]int{}
	for _, hit := range hits {
		recent := 0
		for _, second := range spent[hit.source] {
			if hit.second-second < 600 {
				recent++
			}
		}
		if recent < 5 {
			spent[hit.source] = append(spent[hit.source], hit.second)
		}
		admitted = append(admitted, recent < 5)
	}
	return admitted
}

func tenPerHourFromFirstHit(hits []failure) (admitted []bool) {
	opened, count := map[string]int{}, map[string]int{}
	for _, hit := range hits {
		if since, seen := opened[hit.source]; !seen || hit.second >= since+3600 {
			opened[hit.source], count[hit.source] = hit.second, 0
		}
		if count[hit.source] < 10 {
			count[hit.source]++
			admitted = append(admitted, true)
		} else {
			admitted = append(admitted, false)
		}
	}
	return admitted
}

// Run, the report and its plot on the real log, under the development policies.
func TestRealLogReport(t *testing.T) {
	log := openssh(t)
	var read int64
	events, err := Open("openssh_2k.log", strings.NewReader(log),
		Options{Year: 2016, Progress: func(n int64) { read = n }})
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(events, policy.Dev(), Plan{Policies: []string{"login"}})
	if err != nil {
		t.Fatal(err)
	}
	p := report.Policies[0]
	if report.Format != Auth || p.Events != 528 || p.Admitted+p.Denied != 528 || p.Denied == 0 ||
		report.Unreadable != 0 {
		t.Errorf("got %+v", report)
	}
	if first := p.FirstDenial; first == nil || first.Time.Year() != 2016 || first.Time.Month() != time.December {
		t.Errorf("the first denial is %+v", first)
	}
	if read != int64(len(log)) {
		t.Errorf("the progress ends at %d bytes of %d", read, len(log))
	}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"login", "528", fmt.Sprint(p.Denied), "account-15m", "│", "2016-12-10",
		p.TopDenied[0].Key} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the text lacks %q:\n%s", part, text.String())
		}
	}
	t.Logf("\n%s", text.String())
}
