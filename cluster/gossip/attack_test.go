package gossip

import (
	"bytes"
	"compress/lzw"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

// Message numbers of memberlist.
const (
	gossipPing     = 0
	gossipAlive    = 4
	gossipPushPull = 6
	gossipCompound = 7
	gossipUser     = 8
	gossipCompress = 9
	gossipEncrypt  = 10
	gossipCRC      = 12
)

// labelled prefixes a message with our label, which is no secret.
func labelled(message ...byte) []byte {
	return append([]byte("\xf4\x05stint"), message...)
}

// packed encodes names and values as msgpack: maps of short texts, numbers, and bytes.
func packed(pairs ...any) []byte {
	b := []byte{0x80 | byte(len(pairs)/2)}
	for _, v := range pairs {
		switch v := v.(type) {
		case string:
			b = append(append(b, 0xa0|byte(len(v))), v...)
		case []byte:
			b = append(binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(len(v))), v...)
		case int64:
			b = binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(v))
		case bool:
			b = append(b, 0xc2+flagIf(v, 1))
		}
	}
	return b
}

// squeezed returns a message of that size, compressed in memberlist's format: a few KiB for many MiB.
func squeezed(kind byte, size int64) []byte {
	var out bytes.Buffer
	w := lzw.NewWriter(&out, lzw.LSB, 8)
	w.Write([]byte{kind})
	io.CopyN(w, zeros{}, size)
	w.Close()
	return append([]byte{gossipCompress}, packed("Algo", int64(0), "Buf", out.Bytes())...)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// pushPull returns a full exchange with one node in it.
func pushPull(vsn []byte, userState int64) []byte {
	b := append([]byte{gossipPushPull}, packed("Nodes", int64(1), "UserStateLen", userState, "Join", true)...)
	return append(b, packed("Name", "x", "Addr", []byte{127, 0, 0, 1}, "Port", int64(1), "Meta", []byte{},
		"Incarnation", int64(1), "State", int64(0), "Vsn", vsn)...)
}

// attacks returns messages that, when gossip has no key, end a process with memberlist 0.6.0 or make it allocate all
// memory. The first one has 29 bytes.
func attacks() map[string][]byte {
	length := append([]byte{gossipUser}, packed("UserMsgLen", int64(1)<<62)...)
	alive := append([]byte{gossipAlive}, packed("Incarnation",
		int64(1), "Node", "x", "Addr", []byte{127, 0, 0, 1}, "Port", int64(1), "Vsn", []byte{1})...)
	const bomb = 64 << 20
	return map[string][]byte{
		"a length":                   labelled(length...),
		"a length without the label": length,
		"a long length":              labelled(append([]byte{gossipUser}, packed("UserMsgLen", int64(1)<<40)...)...),
		"a bomb":                     labelled(squeezed(gossipUser, bomb)...),
		"a bomb that is a bomb":      labelled(squeezed(gossipCompress, bomb)...),
		"a length in a bomb":         labelled(squeezed(gossipUser, 10)...),
		"a short version in an exchange": labelled(pushPull([]byte{1},
			0)...),
		"no version in an exchange": labelled(pushPull(nil, 0)...),
		"an exchange with much behind it": labelled(
			pushPull([]byte{1, 5, 2, 0, 0, 0}, 20<<20)...),
		"a short version": labelled(alive...),
		"a short version in a compound": labelled(append([]byte{gossipCompound, 1, 0, byte(len(alive))},
			alive...)...),
		"a ping":                 labelled(append([]byte{gossipPing}, packed("SeqNo", int64(1), "Node", "n1")...)...),
		"encrypted with nothing": labelled(gossipEncrypt, 0, 0, 0, 0),
		"encrypted with much":    labelled(gossipEncrypt, 0xff, 0xff, 0xff, 0xff),
		"encrypted with what is no cipher": labelled(
			append([]byte{gossipEncrypt, 0, 0, 0, 60, 1}, make([]byte, 59)...)...),
		"encrypted with an unknown version": labelled(append([]byte{gossipEncrypt, 0, 0, 0, 60, 9},
			make([]byte, 59)...)...),
		"a checksum over nothing":           labelled(gossipCRC, 0, 0, 0, 0),
		"half a label":                      {0xf4, 200, 's'},
		"an empty label":                    {0xf4, 0},
		"the first byte":                    {0xf4},
		"nothing but the label":             labelled(),
		"a user message with nothing in it": labelled(gossipUser),
		"an exchange with nothing in it":    labelled(gossipPushPull),
		"a compressed message with no bytes": labelled(append([]byte{gossipCompress},
			packed("Algo", int64(0), "Buf", []byte{})...)...),
	}
}

func TestGossipWithAKeyOutlivesWhatEndsMemberlist(t *testing.T) {
	t.Parallel()
	config := gossipConfig("n1")
	// in a rotation, too
	config.Keys = [][]byte{bytes.Repeat([]byte{7}, gossipKeyBytes), bytes.Repeat([]byte{8}, gossipKeyBytes)}
	n1 := startGossip(t, config)
	if size := len(attacks()["a length"]); size != 29 {
		t.Errorf("the shortest attack has %d bytes", size)
	}
	udp, err := net.Dial("udp", n1.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for name, attack := range attacks() {
		tcp, err := net.Dial("tcp", n1.Addr())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		tcp.Write(attack)
		tcp.(*net.TCPConn).CloseWrite()
		tcp.SetDeadline(time.Now().Add(await.Patience))
		if heard, _ := io.ReadAll(tcp); bytes.Contains(heard, []byte("127.0.0.1")) || len(heard) > 200 {
			t.Errorf("%s: who has no key hears %q", name, heard)
		}
		tcp.Close()
		if len(attack) < 60_000 {
			udp.Write(attack)
		}
	}
	// The node is alive, and a node with the key gets in.
	second := gossipConfig("n2", n1)
	second.Keys = config.Keys
	n2 := startGossip(t, second)
	await.Until(t, "both see each other", func() bool { return len(n1.Members()) == 2 && len(n2.Members()) == 2 })
	for _, m := range n1.Members() {
		if m.Node == "x" {
			t.Error("a stranger is listed")
		}
	}
}

func TestStreamsOfGossipAreFew(t *testing.T) {
	t.Parallel()
	config := gossipConfig("n1")
	config.Keys, config.Streams = [][]byte{bytes.Repeat([]byte{7}, gossipKeyBytes)}, 8
	refused := make(chan string, 1000)
	config.OnRefused = func(why string) { refused <- why }
	n1 := startGossip(t, config)
	var strangers []net.Conn
	// The first strangers may have been given up before the last ones come: more come until enough are refused.
	await.Until(t, "strangers are refused", func() bool {
		for range 4 {
			c, err := net.Dial("tcp", n1.Addr())
			if err != nil {
				t.Fatal(err)
			}
			strangers = append(strangers, c)
		}
		return len(refused) >= 12
	})
	for range len(refused) {
		if why := <-refused; why != "full" {
			t.Error(why)
		}
	}
	for _, c := range strangers { // accepted connections are closed too
		c.SetDeadline(time.Now().Add(await.Patience))
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a silent stranger may stay")
		}
		c.Close()
	}
	second := gossipConfig("n2", n1)
	second.Keys = config.Keys
	startGossip(t, second)
	await.Until(t, "a node gets in", func() bool { return len(n1.Members()) == 2 })
}
