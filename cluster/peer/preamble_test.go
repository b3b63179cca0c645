package peer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
)

var helloRaft = preamble{kind: kindRaft, shard: 3, cluster: "c1", from: "n1/3/7", to: "n2/3/8"}

func encoded(t *testing.T, p preamble) []byte {
	t.Helper()
	b, err := p.encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Nodes of different versions exchange these bytes: a change needs a new version number.
func TestPreambleGoldenBytes(t *testing.T) {
	const want = "73746e74" + "01" + "0019" + "01" + "00000003" + "0002" + "6331" +
		"0006" + "6e312f332f37" + "0006" + "6e322f332f38"
	if got := hex.EncodeToString(encoded(t, helloRaft)); got != want {
		t.Errorf("the preamble is\n%s, want\n%s", got, want)
	}
	if got := hex.EncodeToString(encodeReply(WrongNode, "n3")); got != "73746e74"+"03"+"02"+"6e33" {
		t.Errorf("the refusal is %s", got)
	}
}

func TestPreambleIsReadToItsLastByteAndNoFurther(t *testing.T) {
	in := bytes.NewReader(append(encoded(t, helloRaft), "raft"...))
	got, err := readPreamble(in)
	if err != nil || got != helloRaft {
		t.Fatalf("came back as %+v, %v", got, err)
	}
	if rest, _ := io.ReadAll(in); string(rest) != "raft" {
		t.Errorf("what follows is %q, want %q", rest, "raft")
	}
}

func TestPreambleRefusesWhatIsNone(t *testing.T) {
	good := encoded(t, helloRaft)
	edit := func(at int, b byte) []byte {
		c := bytes.Clone(good)
		c[at] = b
		return c
	}
	for _, c := range []struct {
		name string
		in   []byte
		want error
	}{
		{"a web client", []byte("GET / HTTP/1.1\r\n\r\n"), errNotAPeer},
		{"TLS where none is spoken", []byte("\x16\x03\x01\x02\x00\x01\x00"), errNotAPeer},
		{"another version", edit(4, 2), WrongVersion},
		{"a length beyond the bound", edit(5, 0xff), errMalformedPreamble},
		{"an unknown kind", edit(7, 9), errMalformedPreamble},
		{"no kind", edit(7, 0), errMalformedPreamble},
		{"a question about a shard", edit(7, byte(kindAsk)), errMalformedPreamble},
		{"a hop with a shard", edit(7, byte(kindHop)), errMalformedPreamble},
		{"a text longer than the rest", edit(13, 0xff), errMalformedPreamble},
		{"cut off", good[:len(good)-1], io.ErrUnexpectedEOF},
		{"nothing", nil, io.EOF},
	} {
		if _, err := readPreamble(bytes.NewReader(c.in)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestPreambleThatIsTooLongIsNotSent(t *testing.T) {
	p := helloRaft
	p.cluster = strings.Repeat("c", maxPreamble)
	if _, err := p.encode(); err == nil {
		t.Error("it was encoded")
	}
}

func FuzzReadPreamble(f *testing.F) {
	good, _ := helloRaft.encode()
	f.Add(good)
	f.Add([]byte("stnt\x01\x00\x00"))
	f.Add([]byte("GET / HTTP/1.1"))
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := readPreamble(bytes.NewReader(in))
		if err != nil {
			return
		}
		p.nodes()
		if again := encoded(t, p); !bytes.HasPrefix(in, again) {
			t.Errorf("%x was read as %+v, which is written %x", in, p, again)
		}
	})
}

func FuzzReadReply(f *testing.F) {
	f.Add(encodeReply(0, ""))
	f.Add(encodeReply(WrongCluster, "c2"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if err := readReply(bytes.NewReader(in)); err == nil && !bytes.HasPrefix(in, []byte("stnt\x00")) {
			t.Errorf("%x is taken for a welcome", in)
		}
	})
}
