package bench

import (
	"bufio"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeRedis counts in a map. It is exact unless a field makes it wrong. It knows stint's commands and those of a comparison.
type fakeRedis struct {
	quota   int64          // units that STINT.CHECK and CL.THROTTLE admit; 0: everything
	forget  int            // every forget-th INCR is acknowledged and not counted
	refuse  map[int]string // error replies by the number of the INCR or check, from 1; "": the connection breaks
	replica string         // INFO's line

	mu       sync.Mutex
	counters map[string]int64
	asked    map[string]int
	calls    int
}

func (f *fakeRedis) start(t *testing.T) string {
	t.Helper()
	f.counters, f.asked = map[string]int64{}, map[string]int{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); conns.Wait() })
	return listener.Addr().String()
}

func (f *fakeRedis) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		words, err := readCommand(in)
		if err != nil {
			return
		}
		answer := f.answer(words)
		if answer == "" {
			return
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

func readCommand(in *bufio.Reader) (words []string, err error) {
	number := func() (n int) {
		var line string
		if line, err = in.ReadString('\n'); err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n
	}
	for n := number(); n > 0 && err == nil; n-- {
		word := make([]byte, number()+2)
		if err == nil {
			_, err = io.ReadFull(in, word)
			words = append(words, string(word[:len(word)-2]))
		}
	}
	return words, err
}

func (f *fakeRedis) answer(words []string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[words[0]]++
	switch words[0] {
	case "INCR", "CL.THROTTLE", "STINT.CHECK", "EVALSHA":
		f.calls++
		if refusal, ok := f.refuse[f.calls]; ok {
			return refusal
		}
	}
	switch words[0] {
	case "INCR":
		f.counters[words[1]]++
		n := f.counters[words[1]]
		if f.forget > 0 && f.calls%f.forget == 0 {
			f.counters[words[1]]--
		}
		return fmt.Sprintf(":%d\r\n", n)
	case "CL.THROTTLE":
		return fmt.Sprintf("*5\r\n:%d\r\n:1\r\n:1\r\n:-1\r\n:0\r\n", f.take(words[1]))
	case "STINT.CHECK":
		return fmt.Sprintf("*4\r\n$7\r\nallowed\r\n:%d\r\n$5\r\nquota\r\n:9\r\n", 1-f.take(words[2]))
	case "EVALSHA":
		return fmt.Sprintf(":%d\r\n", f.take(words[3]))
	case "GET":
		n, ok := f.counters[words[1]]
		if !ok {
			return "$-1\r\n"
		}
		text := strconv.FormatInt(n, 10)
		return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	case "DEL":
		delete(f.counters, words[1])
		return ":1\r\n"
	case "INFO":
		text := "redis_version:7.0.0\r\naof_enabled:1\r\nused_cpu_user:1.5\r\nused_cpu_sys:0.5\r\n" + f.replica
		return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	case "CONFIG":
		return "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n"
	case "WAIT":
		return ":" + words[1] + "\r\n"
	}
	return "+OK\r\n"
}

// take returns 0 for allowed and 1 for denied.
func (f *fakeRedis) take(key string) int {
	if f.quota > 0 && f.counters[key] >= f.quota {
		return 1
	}
	f.counters[key]++
	return 0
}

func incrPlan(address string, batch int) Plan {
	return Plan{Protocol: Redis, Redis: []string{address}, Work: Incr, KeyPrefix: "k-", Fresh: true, Callers: 8, Keys: 3,
		Batch: batch, Count: 500}
}

// A server whose counters hold the acknowledged increments is called exact, with and without pipelines, and no key is left
// behind.
func TestCountersThatHoldWhatWasAcknowledged(t *testing.T) {
	for _, batch := range []int{1, 16} {
		fake := &fakeRedis{}
		report := mustRun(t, incrPlan(fake.start(t), batch))
		if v := report.Verdict; !v.OK || !v.Exact || v.Admitted != 500 || v.AtMost != 500 {
			t.Errorf("pipelines of %d: verdict %+v", batch, v)
		}
		if len(fake.counters) != 0 {
			t.Errorf("keys stayed behind: %v", fake.counters)
		}
	}
}

func TestAForgottenIncrementFailsTheRun(t *testing.T) {
	fake := &fakeRedis{forget: 100}
	report := mustRun(t, incrPlan(fake.start(t), 1))
	if report.Verdict.OK || !strings.Contains(report.Verdict.Text, "MISCOUNTED") {
		t.Errorf("verdict %+v", report.Verdict)
	}
}

// A counter that was used before is judged by what the run added to it.
func TestUsedCountersAreJudgedByTheirGrowth(t *testing.T) {
	fake := &fakeRedis{}
	p := incrPlan(fake.start(t), 1)
	p.Fresh = false
	fake.counters[p.keyName(0)] = 1_000
	if report := mustRun(t, p); !report.Verdict.OK || !report.Verdict.Exact {
		t.Errorf("verdict %+v", report.Verdict)
	}
}

// The first word of an error tells failures that certainly were not counted from those that may have been.
func TestErrorsOfTheRedisProtocolByFate(t *testing.T) {
	fake := &fakeRedis{refuse: map[int]string{10: "-TRYAGAIN busy\r\n", 20: "-UNKNOWN who knows\r\n", 30: "", 40: "-ERR no\r\n"}}
	p := incrPlan(fake.start(t), 1)
	p.Callers = 1
	report := mustRun(t, p)
	if report.Failed != 2 || report.Unknown != 2 || !report.Verdict.OK || report.Verdict.Exact {
		t.Errorf("failed %d, unknown %d, verdict %+v", report.Failed, report.Unknown, report.Verdict)
	}
	for _, code := range []string{"tryagain", "unknown", "connection", "err"} {
		if report.Errors[code] == nil {
			t.Errorf("no error is called %q: %v", code, report.Errors)
		}
	}
}

// STINT.CHECK is audited by the policy, which comes from the API.
func TestChecksOverTheRedisProtocolAreAudited(t *testing.T) {
	for _, quota := range []int64{100, 101} {
		api, fake := newFake(100), &fakeRedis{quota: quota}
		p := countPlan(api.start(t), Redis)
		p.Redis, p.Batch = []string{fake.start(t)}, 7
		report := mustRun(t, p)
		if right := quota == 100; report.Verdict.OK != right || report.Verdict.Exact != right || report.Admitted != uint64(quota) {
			t.Errorf("quota %d: verdict %+v", quota, report.Verdict)
		}
	}
}

// A reply is read the same wherever the network splits it.
func TestRepliesInPieces(t *testing.T) {
	whole := "*3\r\n:0\r\n$5\r\nhello\r\n*2\r\n:7\r\n$-1\r\n-ERR no\r\n:-12\r\n+OK\r\n$0\r\n\r\n"
	want := []string{"* 0 ", "- 0 ERR no", ": -12 ", "+ 0 OK", "$ 0 "}
	for cut := range whole {
		var got []string
		seen, rest := whole[:cut], whole[cut:]
		for len(seen) > 0 || len(rest) > 0 {
			r, n, err := parseReply([]byte(seen))
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				seen, rest = seen+rest, ""
				continue
			}
			got = append(got, fmt.Sprintf("%c %d %s", r.kind, r.number, r.text))
			seen = seen[n:]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("cut at %d: %q", cut, got)
		}
	}
	for _, other := range []string{"HTTP/1.1 400\r\n", ":x\r\n", "\r\n", "$9223372036854775807\r\n", "*1\r\n?\r\n"} {
		if _, _, err := parseReply([]byte(other)); !errors.Is(err, errNotRESP) {
			t.Errorf("%q: error %v", other, err)
		}
	}
}

// Both sides get the same work in turns; the Redis waits for its replicas; and no key is left behind on either.
func TestComparison(t *testing.T) {
	replica := &fakeRedis{}
	host, port, _ := net.SplitHostPort(replica.start(t))
	stint := &fakeRedis{}
	redis := &fakeRedis{replica: fmt.Sprintf("slave0:ip=%s,port=%s,state=online,lag=0\r\n", host, port)}
	c := Comparison{Peer: redis.start(t), Works: []Work{Incr, Bucket}, Wait: 1, Rounds: 2, Plan: Plan{Redis: []string{stint.start(t)},
		KeyPrefix: "k-", Callers: 2, Keys: 5, Batch: 4, Count: 40}}
	runs := 0
	report, err := c.Run(context.Background(), func(CompareProgress) { runs++ })
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Comparisons) != 2*2*2*2 || runs != 2*2*2*3*2 || len(report.Wrong) > 0 {
		t.Errorf("%d comparisons in %d runs, wrong: %v", len(report.Comparisons), runs, report.Wrong)
	}
	for _, one := range report.Comparisons {
		if one.Ratio.Min <= 0 || one.Stint.PerSecond.Median <= 0 || one.Redis.Failed > 0 {
			t.Errorf("%+v", one)
		}
	}
	if r := report.Redis; !r.AppendOnly || r.AppendFsync != "always" || len(r.Replicas) != 1 || r.Replicas[0].Version == "" {
		t.Errorf("the Redis is said to be %+v", r)
	}
	if stint.asked["WAIT"] > 0 || stint.asked["EVALSHA"] > 0 || redis.asked["WAIT"] == 0 || redis.asked["CL.THROTTLE"] > 0 {
		t.Errorf("stint was asked %v, the Redis %v", stint.asked, redis.asked)
	}
	if len(stint.counters)+len(redis.counters) > 0 {
		t.Errorf("keys stayed behind: %v and %v", stint.counters, redis.counters)
	}
}

func TestWaitNeedsReplicas(t *testing.T) {
	c := Comparison{Peer: (&fakeRedis{}).start(t), Works: []Work{Incr}, Wait: 1, Plan: Plan{Redis: []string{"127.0.0.1:1"}}}
	if _, err := c.Run(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "has 0 replicas") {
		t.Errorf("error %v", err)
	}
}

// Each value is measured in each round, and every key of a curve along keys is used before it is measured.
func TestCurve(t *testing.T) {
	fake := newFake(1_000_000)
	p := countPlan(fake.start(t), JSON)
	for x, want := range map[string][]int{"callers": {4, 1, 4, 1}, "keys": {1, 1, 4, 4}} {
		var got []int
		var points []Point
		err := Curve{Plan: p, X: x, Values: []int{4, 1}, Series: "a & b", Rounds: 2}.Run(context.Background(), func(p Point) error {
			got, points = append(got, p.Value), append(points, p)
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: measured %v, error %v", x, got, err)
		}
		if x == "keys" && len(fake.used) < 4 {
			t.Errorf("used are only %v", fake.used)
		}
		var chart strings.Builder
		if err := Draw(&chart, "rate < more", points); err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal([]byte(chart.String()), new(struct{ XMLName xml.Name })); err != nil || !strings.Contains(chart.String(), "a &amp; b") {
			t.Errorf("the chart is not well-formed: %v\n%s", err, chart.String())
		}
	}
}

func TestParseCurve(t *testing.T) {
	for _, text := range []string{"", "callers", "callers=", "callers=1,x", "pigeons=1", "keys=0", "shards=1,2"} {
		if _, _, err := ParseCurve(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	if x, values, err := ParseCurve("keys=1,1000"); err != nil || x != "keys" || !slices.Equal(values, []int{1, 1000}) {
		t.Error(x, values, err)
	}
}

func TestFloor(t *testing.T) {
	directory := t.TempDir()
	f, err := MeasureFloor(context.Background(), directory, 5*time.Millisecond)
	if err != nil || f.SyncAppendMicros.Max == 0 || f.SyncPreallocatedMicros.Max == 0 || f.RoundTripMicros.Max == 0 {
		t.Errorf("%+v, error %v", f, err)
	}
}
