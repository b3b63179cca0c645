package peer

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/hop"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/testing/await"
)

// line is a line of a test's key file.
func line(n byte) string { return hex.EncodeToString(bytes.Repeat([]byte{n}, keyBytes)) }

func lines(all ...string) []byte { return []byte(strings.Join(all, "\n") + "\n") }

// Nodes of all releases derive the same.
func TestWhatIsDerivedFromALineStays(t *testing.T) {
	k, err := ParseClusterKey(lines(line(1)))
	if err != nil {
		t.Fatal(err)
	}
	l := k.lines[0]
	got := fmt.Sprintf("%s %x %x", l.fingerprint, l.gossip, l.authority.Public())
	const want = "c8bbe45f1faa e8516016aeeb28c262dfd07546594e6b276d61a6034f122b6b80539633b80eff " +
		"f13d493f2dfd2f924f42de8faa61e448e8fbfee2e8e19ee47e7ad25843b7da8f"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if shown := fmt.Sprintf("%v %+v %s", k, k, k); strings.Contains(shown, line(1)) ||
		!strings.Contains(shown, l.fingerprint) {
		t.Errorf("it is shown as %s", shown)
	}
}

func TestAClusterKeyIsLinesOf32Bytes(t *testing.T) {
	inBase64 := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{2}, keyBytes))
	k, err := ParseClusterKey([]byte("\n" + line(1) + "\r\n\n  " + inBase64 + "\n" + strings.ToUpper(line(0xab))))
	if err != nil || len(k.lines) != 3 || len(k.GossipKeys()) != 3 {
		t.Fatalf("%v, %v", k, err)
	}
	same, err := ParseClusterKey(lines(line(2)))
	if err != nil || same.Fingerprints()[0] != k.Fingerprints()[1] {
		t.Errorf("base64 and hex of the same bytes differ: %v, %v", same, err)
	}
	var many []string
	for i := range keyLinesMost + 1 {
		many = append(many, line(byte(i)))
	}
	for text, want := range map[string]string{
		"":                          "it is empty",
		"\n \n":                     "it is empty",
		line(1)[:62]:                "line 1 is not 32 bytes",
		line(1) + "00":              "line 1 is not 32 bytes",
		line(1) + "\n" + "x":        "line 2 is not 32 bytes",
		string(make([]byte, 32)):    "line 1 is not 32 bytes",
		line(1) + "\n" + line(1):    "line 2 is there twice",
		string(lines(many...)):      "it has 9 lines",
		strings.Repeat("\n", 1<<13): "it has more than 4096 bytes",
	} {
		if _, err := ParseClusterKey([]byte(text)); err == nil || !strings.Contains(err.Error(), want) ||
			len(text) > 60 && strings.Contains(err.Error(), text[:60]) {
			t.Errorf("%.80q: %v, want %q", text, err, want)
		}
	}
}

func FuzzClusterKey(f *testing.F) {
	f.Add(lines(line(1), line(2)))
	f.Add([]byte("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := ParseClusterKey(text)
		if err != nil {
			return
		}
		if n := len(k.lines); n < 1 || n > keyLinesMost || len(k.GossipKeys()) != n || len(k.Fingerprints()) != n {
			t.Errorf("%d lines, %d keys, %v", n, len(k.GossipKeys()), k.Fingerprints())
		}
	})
}

// keyFile writes a key file, and rewrites it.
func keyFile(t testing.TB, name string, all ...string) {
	t.Helper()
	if err := os.WriteFile(name, lines(all...), 0o600); err != nil {
		t.Fatal(err)
	}
}

func openKey(t testing.TB, all ...string) (f *KeyFile, name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "cluster.key")
	keyFile(t, name, all...)
	f, err := OpenKeyFile(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return f, name
}

// take has the content of the file taken, as two looks do.
func take(f *KeyFile) { f.Refresh(); f.Refresh() }

func TestAKeyFileThatCannotBeUsedLeavesTheLastContentInForce(t *testing.T) {
	f, name := openKey(t, line(1))
	var log bytes.Buffer
	f.logger = slog.New(slog.NewTextHandler(&log, nil))
	before := f.Key()
	for what, spoil := range map[string]func(){
		"empty":      func() { keyFile(t, name) },
		"malformed":  func() { keyFile(t, name, line(2), "x") },
		"missing":    func() { os.Remove(name) },
		"unreadable": func() { os.Remove(name); os.Mkdir(name, 0o700) },
	} {
		log.Reset()
		spoil()
		for range 5 {
			if f.Refresh() || f.Key() != before {
				t.Errorf("%s: it was taken", what)
			}
		}
		if text := log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, name) {
			t.Errorf("%s: the log has:\n%s", what, text)
		}
		os.RemoveAll(name)
		keyFile(t, name, line(1))
		take(f)
	}
	keyFile(t, name, line(2))
	if f.Refresh() {
		t.Error("content was taken at the first look: it may be half written")
	}
	if !f.Refresh() || f.Refresh() || f.Key() == before {
		t.Error("the new content was not taken once")
	}
	if strings.Contains(log.String(), line(2)) {
		t.Error("the key is in the log")
	}
}

func TestOfSeveralThatMakeAKeyFileOneDoes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "cluster.key")
	var made [8]string
	var makers sync.WaitGroup
	for i := range made {
		makers.Go(func() {
			if err := MakeKeyFile(name); err != nil {
				t.Error(err)
			}
			f, err := OpenKeyFile(name, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Error(err)
				return
			}
			made[i] = f.Key().Fingerprints()[0]
		})
	}
	makers.Wait()
	for _, fingerprint := range made {
		if fingerprint != made[0] {
			t.Errorf("they read %v", made)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, _ := os.ReadDir(filepath.Dir(name)); len(left) != 1 {
		t.Errorf("%d files are there", len(left))
	}
}

func keyed(key *KeyFile) func(*Config) {
	return func(c *Config) { c.Key, c.Decide, c.Answer = key, allow, clock(0) }
}

func TestNodesWithOneKeyTalkAndNobodyElse(t *testing.T) {
	noLeaks(t)
	known := new(addresses)
	key, _ := openKey(t, line(1), line(2))
	second, _ := openKey(t, line(2))
	other, _ := openKey(t, line(3))
	n1 := openPort(t, known, "n1", keyed(key), func(c *Config) { c.Listener = listenOn(t, "0.0.0.0:0") })
	n2 := openPort(t, known, "n2", keyed(key))
	at := n1.Stream(0, "n1/0/2")
	talk(t, dialed(t, n2.Stream(0, "n2/0/1"), "n1/0/2"), at)
	if !n1.CertificateEnds().IsZero() {
		t.Error("its certificate ends, although it renews it")
	}
	for what, edit := range map[string]func(*Config){
		"plaintext":                   func(c *Config) { c.Decide = allow },
		"another cluster's key":       keyed(other),
		"another line than the first": keyed(second),
		"certificate files":           secured(newAuthority(t).peer(t, "n3")),
	} {
		n3 := openPort(t, known, "n3", edit)
		for _, dial := range []func(context.Context, string) (io.Closer, error){
			func(ctx context.Context, node string) (io.Closer, error) { return n3.DialHop(ctx, node) },
			func(ctx context.Context, node string) (io.Closer, error) { return n3.DialAsk(ctx, node) },
		} {
			if _, err := dial(t.Context(), "n1"); err == nil {
				t.Errorf("%s gets in", what)
			}
		}
		if _, err := n1.DialHop(t.Context(), "n3"); err == nil {
			t.Errorf("%s is believed", what)
		}
	}
}

func TestACertificateIsRenewedBeforeItEndsAndForOtherClocks(t *testing.T) {
	key, _ := openKey(t, line(1))
	k, err := newKeyIdentity(key, "n1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	k.now = func() time.Time { return now }
	verify := func(p proof, at time.Time) error {
		c, err := x509.ParseCertificate(p.own.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Verify(x509.VerifyOptions{Roots: p.roots, CurrentTime: at,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err
	}
	first := k.current()
	for _, off := range []time.Duration{-47 * time.Hour, 0, 7 * 24 * time.Hour} {
		if err := verify(first, now.Add(off)); err != nil {
			t.Errorf("for a clock that is %v off: %v", off, err)
		}
	}
	for _, step := range []time.Duration{time.Hour, 25 * time.Hour, 3000 * time.Hour, -5000 * time.Hour} {
		now = now.Add(step)
		if err := verify(k.current(), now); err != nil {
			t.Errorf("after %v: %v", step, err)
		}
	}
	if k.current().own == first.own {
		t.Error("it was never renewed")
	}
}

// When another line sends, the connection that carries forwarded requests ends in good order and is made again: no
// request is lost, and none is cut off later when the old line goes.
func TestForwardedRequestsMoveToTheLineThatSends(t *testing.T) {
	noLeaks(t)
	known := new(addresses)
	key1, _ := openKey(t, line(1), line(2))
	key2, name2 := openKey(t, line(1), line(2))
	n1, n2 := openPort(t, known, "n1", keyed(key1)), openPort(t, known, "n2", keyed(key2))
	h := hop.New(hop.Near, n1.DialHop)
	defer h.Close()
	wantAllowed(t, "with the old line", h.Submit(t.Context(), "n2", 0, 1, oneCheck))
	keyFile(t, name2, line(2), line(1))
	take(key2)
	n2.Recheck()
	sends := key2.Key().Fingerprints()[0]
	await.Until(t, "requests travel by the new line", func() bool {
		for _, r := range h.Submit(t.Context(), "n2", 0, 1, oneCheck) {
			if r.Err != nil && r.Err.MaybeApplied() {
				t.Errorf("a request was cut off: %v", r.Err)
			}
		}
		all := n2.allPeerConns()
		return len(all) == 1 && all[0].peer.own == sends
	})
}

// The steps of a rotation, with connections of all kinds that stand throughout: what was proven by a removed line ends.
func TestTheLineThatWasRemovedIsRefusedAndItsConnectionsEnd(t *testing.T) {
	noLeaks(t)
	known := new(addresses)
	key1, name1 := openKey(t, line(1))
	key2, name2 := openKey(t, line(1))
	n1, n2 := openPort(t, known, "n1", keyed(key1)), openPort(t, known, "n2", keyed(key2))
	h := hop.New(hop.Near, n1.DialHop)
	defer h.Close()
	wantAllowed(t, "with the old line", h.Submit(t.Context(), "n2", 0, 1, oneCheck))
	asking, err := n1.DialAsk(t.Context(), "n2")
	if err != nil {
		t.Fatal(err)
	}
	defer asking.Close()
	thief, _ := openKey(t, line(1))
	n3 := openPort(t, known, "n3", keyed(thief))
	stolen, err := n3.DialAsk(t.Context(), "n2")
	if err != nil {
		t.Fatal(err)
	}
	defer stolen.Close()
	for _, step := range [][]string{{line(1), line(2)}, {line(2), line(1)}, {line(2)}} {
		keyFile(t, name1, step...)
		take(key1)
		n1.Recheck()
		keyFile(t, name2, step...)
		take(key2)
		n2.Recheck()
		await.Until(t, "requests are forwarded", func() bool {
			r := h.Submit(t.Context(), "n2", 0, 1, oneCheck)
			return r[0].Err == nil && r[0].Decision.Allowed
		})
	}
	if _, err := n3.DialAsk(t.Context(), "n2"); err == nil {
		t.Error("the old line still gets in")
	}
	for what, conn := range map[string]io.ReadWriteCloser{"a node's from before": asking, "the thief's": stolen} {
		ended := make(chan error, 1)
		go func() {
			_, err := Ask(conn.(*peerConn), placement.Question{})
			ended <- err
		}()
		if err := await.Receive(t, what+" connection is answered or ends", ended); err == nil {
			t.Errorf("%s connection goes on", what)
		}
	}
}
