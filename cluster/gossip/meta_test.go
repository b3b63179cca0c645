package gossip

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stint-io/stint/shard/codec"
)

var sampleMeta = Member{State: MemberLeft, Cluster: "c1", PeerAddr: "node-1:7401", APIAddr: "[::1]:7400", Zone: "z",
	Version: "1.2", Expect: 3, Formation: &Formation{Cluster: "c1", Founders: []string{"node-1", "node-2", "north"},
		Shards: 300, Replicas: 3, Go: true}}

func TestMetaComesBackAndDamageIsRefused(t *testing.T) {
	b, err := sampleMeta.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeMeta(b); err != nil || !reflect.DeepEqual(got, sampleMeta) {
		t.Errorf("came back as %+v, %v", got, err)
	}
	for end := range b {
		if _, err := decodeMeta(b[:end]); err == nil {
			t.Errorf("the first %d of %d bytes were taken", end, len(b))
		}
	}
	if _, err := decodeMeta(append(b, 0)); err == nil {
		t.Error("a byte too many was taken")
	}
}

func TestMetaGoldenBytes(t *testing.T) {
	want := []byte("\x01\x07\x02c1\x0bnode-1:7401\x0a[::1]:7400\x01z\x031.2" +
		"\x03\xac\x02\x03\x03\x00\x06node-1\x05\x012\x02\x03rth")
	if got, _ := sampleMeta.encode(); !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q: nodes of two versions would not see each other", got, want)
	}
}

func TestMetaWithAFormationThatCannotBeIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Member){
		"of another cluster": func(m *Member) { m.Cluster = "c2" },
		"of no cluster":      func(m *Member) { m.Cluster, m.Formation.Cluster = "", "" },
		"without founders":   func(m *Member) { m.Formation.Founders = nil },
		"not sorted":         func(m *Member) { m.Formation.Founders = []string{"b", "a"} },
		"one twice":          func(m *Member) { m.Formation.Founders = []string{"a", "a"} },
		"a long founder":     func(m *Member) { m.Formation.Founders = []string{longText} },
		"negative replicas":  func(m *Member) { m.Formation.Replicas = -1 },
		"nobody expected":    func(m *Member) { m.Expect = -1 },
	} {
		m, f := sampleMeta, *sampleMeta.Formation
		m.Formation = &f
		change(&m)
		if _, err := m.encode(); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
	for name, tail := range map[string]string{
		"more founders than bytes":    "\x03\x01\x01\x7f\x00\x01a",
		"like one that is not there":  "\x03\x01\x01\x01\x01\x01a",
		"an id longer than it may be": "\x03\x01\x01\x02\x00\x40" + longText[:64] + "\x40\x01a",
		"a shard count of 33 bits":    "\x03\x80\x80\x80\x80\x10\x01\x01\x00\x01a",
		"nobody":                      "\x03\x01\x01\x00",
	} {
		if m, err := decodeMeta([]byte("\x02\x02\x02c1\x00\x00\x00\x00" + tail)); err == nil {
			t.Errorf("%s: read as %+v", name, m.Formation)
		}
	}
}

// Node ids are host names, or 16 hexadecimal digits.
func TestMetaHasRoomForTheFoundersOfAnyClusterThatIsFoundedAtOnce(t *testing.T) {
	for pattern, many := range map[string]int{"stint-%d.stint.production.svc.example.com": 9, "%016x": 9} {
		m := Member{Cluster: "0123456789abcdef0123456789abcdef", PeerAddr: fmt.Sprintf(pattern, 1) + ":7401",
			APIAddr: fmt.Sprintf(pattern, 1) + ":7400", Zone: "eu-central-1a", Version: "1.2.3", Expect: many}
		m.Formation = &Formation{Cluster: m.Cluster, Shards: 256, Replicas: 3}
		for i := range many {
			m.Formation.Founders = append(m.Formation.Founders, fmt.Sprintf(pattern, i))
		}
		if _, err := m.encode(); err != nil {
			t.Error(err)
		}
	}
}

func TestMetaOfALaterVersionIsReadAsFarAsKnown(t *testing.T) {
	b, _ := sampleMeta.encode()
	b[0]++
	b = append(appendText(b, "a field to come"), 7)
	if got, err := decodeMeta(b); err != nil || !reflect.DeepEqual(got, sampleMeta) {
		t.Errorf("came back as %+v, %v", got, err)
	}
}

func TestMetaThatCannotTravelIsRefused(t *testing.T) {
	host := strings.Repeat("h", 250)
	for name, m := range map[string]Member{
		"too long together": {PeerAddr: host, APIAddr: host, Zone: strings.Repeat("z", 20)},
		"one text too long": {Zone: strings.Repeat("z", textBytesMax+1)},
		"control character": {Zone: "\x1b[31m"},
		"not UTF-8":         {Version: "\xff"},
	} {
		if _, err := m.encode(); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
	many := Member{Cluster: "c1", Formation: &Formation{Cluster: "c1"}}
	for i := range 10 {
		many.Formation.Founders = append(many.Formation.Founders, fmt.Sprint(i)+longText[:60])
	}
	if _, err := many.encode(); err == nil || !strings.Contains(err.Error(), "10 founders") {
		t.Errorf("too many founders: %v", err)
	}
}

func FuzzMeta(f *testing.F) {
	b, _ := sampleMeta.encode()
	f.Add(b)
	f.Add([]byte{metaFormat, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			return // longer than memberlist allows
		}
		if same, err := decodeMeta(again); err != nil || !reflect.DeepEqual(same, m) {
			t.Fatalf("%+v came back as %+v, %v", m, same, err)
		}
	})
}

func appendText(b []byte, text string) []byte {
	c := codec.Writer(b)
	c.Text(&text)
	return c.Written()
}
