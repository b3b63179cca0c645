package cluster

import (
	"bytes"
	"strings"
	"testing"
)

var sampleMeta = meta{leaving: true, cluster: "c1", peerAddr: "node-1:7401", apiAddr: "[::1]:7400", zone: "z",
	version: "1.2"}

func TestMetaComesBackAndDamageIsRefused(t *testing.T) {
	b, err := sampleMeta.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeMeta(b); err != nil || got != sampleMeta {
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
	want := []byte("\x01\x01\x02c1\x0bnode-1:7401\x0a[::1]:7400\x01z\x031.2")
	if got, _ := sampleMeta.encode(); !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q: nodes of two versions would not see each other", got, want)
	}
}

func TestMetaOfALaterVersionIsReadAsFarAsKnown(t *testing.T) {
	b, _ := sampleMeta.encode()
	b[0]++
	b = append(appendText(b, "a field to come"), 7)
	if got, err := decodeMeta(b); err != nil || got != sampleMeta {
		t.Errorf("came back as %+v, %v", got, err)
	}
}

func TestMetaThatCannotTravelIsRefused(t *testing.T) {
	host := strings.Repeat("h", 250)
	for name, m := range map[string]meta{
		"too long together": {peerAddr: host, apiAddr: host, zone: strings.Repeat("z", 20)},
		"one text too long": {zone: strings.Repeat("z", textBytesMax+1)},
		"control character": {zone: "\x1b[31m"},
		"not UTF-8":         {version: "\xff"},
	} {
		if _, err := m.encode(); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
}

func FuzzMeta(f *testing.F) {
	b, _ := sampleMeta.encode()
	f.Add(b)
	f.Add([]byte{metaFormat, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			return // longer than memberlist lets it be
		}
		if same, err := decodeMeta(again); err != nil || same != m {
			t.Fatalf("%+v came back as %+v, %v", m, same, err)
		}
	})
}
