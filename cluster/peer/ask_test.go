package peer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/shard"
)

var sampleReport = placement.Report{Node: "n2", WallMicros: 1e15, TableVersion: 7,
	Documents: []placement.NamedDocument{
		{Name: "table", Document: shard.Document{Version: 7, Body: []byte(`{"a":1}`)}},
	},
	Replicas: []placement.ReplicaReport{{Shard: shard.System, Number: 1, Leading: true, Epoch: 9,
		Members: []placement.GroupMember{
			{Name: "n1/4294967295/1", Voter: true}}}}}

func answering(answer func(from string, q placement.Question) placement.Report) func(*Config) {
	return func(c *Config) { c.Answer = answer }
}

func dialAsk(t *testing.T, p *Port, node string) net.Conn {
	t.Helper()
	conn, err := p.DialAsk(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestANodeAnswersAsManyQuestionsAsItIsAsked(t *testing.T) {
	noLeaks(t)
	n1, n2 := joinedPorts(t, answering(func(from string, q placement.Question) placement.Report {
		report := sampleReport
		report.Node, report.TableVersion = "the port knows better, asked by "+from, q.Versions["table"]
		report.KeyLines = []string{from}
		return report
	}))
	var group sync.WaitGroup
	for from, way := range map[string][2]*Port{"n1": {n1, n2}, "n2": {n2, n1}} {
		for range 3 {
			conn := dialAsk(t, way[0], way[1].config.Node)
			group.Go(func() {
				for version := range uint64(20) {
					want := sampleReport
					want.Node, want.TableVersion, want.KeyLines = way[1].config.Node, version, []string{from}
					got, err := Ask(conn, placement.Question{Versions: map[string]uint64{"table": version}})
					if err != nil || !reflect.DeepEqual(got, want) {
						t.Errorf("answered %+v, %v; want %+v", got, err, want)
					}
				}
			})
		}
	}
	group.Wait()
}

func TestWhoMayNotAskLearnsWhy(t *testing.T) {
	noLeaks(t)
	known := new(addresses)
	answer := answering(func(string, placement.Question) placement.Report { return placement.Report{} })
	openPort(t, known, "n2", answer)
	openPort(t, known, "mute")
	n1 := openPort(t, known, "n1")
	stranger := openPort(t, known, "n9", func(c *Config) { c.Cluster = "c2" })
	for _, c := range []struct {
		from *Port
		node string
		want Refusal
	}{{n1, "mute", NotAnswering}, {stranger, "n2", WrongCluster}} {
		if conn, err := c.from.DialAsk(t.Context(), c.node); !errors.Is(err, c.want) {
			t.Errorf("%s asking %s: %v, %v; want %v", c.from.config.Node, c.node, conn, err, c.want)
		}
	}
}

// askedInMemory returns a port without sockets that answers questions, and another one to ask it with.
func askedInMemory(t *testing.T, answer func(string, placement.Question) placement.Report) (n1, n2 *Port) {
	m, known := newMemory(), new(addresses)
	n2 = openPort(t, known, "n2", m.use, answering(answer))
	return openPort(t, known, "n1", newMemory().use, func(c *Config) { c.Dial = m.dial }), n2
}

func TestAnAskerDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		n1, _ := askedInMemory(t, func(string, placement.Question) placement.Report {
			<-release
			return placement.Report{}
		})
		conn, begin := dialAsk(t, n1, "n2"), time.Now()
		if _, err := Ask(conn, placement.Question{}); err == nil || time.Since(begin) != askWithin {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		close(release)
	})
}

func TestWhoAsksNothingOrTooSlowlyIsHungUpOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n1, n2 := askedInMemory(t, func(string, placement.Question) placement.Report { return placement.Report{} })
		for name, c := range map[string]struct {
			words string
			after time.Duration
		}{
			"nothing":        {"", askIdle},
			"half":           {"\x00\x00\x00\x09{", askWithin},
			"much":           {"\xff\xff\xff\xff", 0},
			"no JSON":        {"\x00\x00\x00\x01{", 0},
			"and no preface": {"\x00\x00\x00\x00", 0},
		} {
			conn, begin := dialAsk(t, n1, "n2"), time.Now()
			if _, err := conn.Write([]byte(c.words)); err != nil {
				t.Fatal(err)
			}
			if answer, err := io.ReadAll(conn); err != nil || len(answer) > 0 || time.Since(begin) != c.after {
				t.Errorf("%s: %q, %v after %v; want %v", name, answer, err, time.Since(begin), c.after)
			}
		}
		synctest.Wait()
		n2.mu.Lock()
		defer n2.mu.Unlock()
		if len(n2.conns) > 0 {
			t.Errorf("%d connections are still counted", len(n2.conns))
		}
	})
}

func TestAReportThatIsTooLongIsNotSent(t *testing.T) {
	noLeaks(t)
	var large atomic.Int64
	n1, _ := joinedPorts(t, answering(func(string, placement.Question) placement.Report {
		long := shard.Document{Body: make([]byte, large.Load())}
		return placement.Report{Documents: []placement.NamedDocument{{Document: long}}}
	}))
	large.Store(maxReport / 2) // encoded in base64
	report, err := Ask(dialAsk(t, n1, "n2"), placement.Question{})
	if err != nil || len(report.Documents[0].Body) != maxReport/2 {
		t.Errorf("a long report: %d documents, %v", len(report.Documents), err)
	}
	large.Store(maxReport)
	if _, err := Ask(dialAsk(t, n1, "n2"), placement.Question{}); err == nil {
		t.Error("a report beyond the bound came through")
	}
}

func TestCloseEndsAskConnections(t *testing.T) {
	noLeaks(t)
	n1, n2 := joinedPorts(t, answering(func(string, placement.Question) placement.Report { return placement.Report{} }))
	conn := dialAsk(t, n1, "n2")
	n2.DrainHops() // a stopping node answers questions until the end
	if _, err := Ask(conn, placement.Question{}); err != nil {
		t.Errorf("while it drains: %v", err)
	}
	if err := n2.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Ask(conn, placement.Question{}); err == nil {
		t.Error("a closed port answers")
	}
}

func FuzzReadReport(f *testing.F) {
	var good bytes.Buffer
	if err := writeMessage(&good, sampleReport, maxReport); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var report placement.Report
		rest := bytes.NewReader(in)
		if err := readMessage(rest, &report, maxReport, func() {}); err != nil {
			return
		}
		if read := len(in) - rest.Len(); read != 4+int(binary.BigEndian.Uint32(in)) {
			t.Errorf("%d bytes were read of %q", read, in)
		}
		var again bytes.Buffer
		if err := writeMessage(&again, report, 8*maxReport); err != nil && !strings.Contains(err.Error(), "more than") {
			t.Errorf("%+v cannot be written: %v", report, err)
		}
	})
}
