package certfile

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/testcert"
)

// watched is a Watcher of files in a directory, with a clock and a log that the test holds.
type watched struct {
	*Watcher
	ca  *testcert.Authority
	dir string
	now time.Time
	log bytes.Buffer
}

func watch(t *testing.T, change func(*Config), certificate ...func(*x509.Certificate)) *watched {
	t.Helper()
	w := &watched{ca: testcert.New(t), dir: t.TempDir(), now: time.Now()}
	files := w.ca.Write(w.dir, certificate...)
	config := Config{Files: Files{Cert: files.Cert, Key: files.Key, CAs: files.CA}, Name: "test certificate",
		Others: "client", Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Now: func() time.Time { return w.now }}
	change(&config)
	var err error
	if w.Watcher, err = Load(config); err != nil {
		t.Fatal(err)
	}
	return w
}

func always(*Config) {}

func (w *watched) serial() int64 { return w.Current().Certificate.Leaf.SerialNumber.Int64() }

func TestNewFilesComeIntoUseWithoutARestart(t *testing.T) {
	w := watch(t, always)
	first := w.serial()
	w.ca.Write(w.dir)
	if w.serial() == first {
		t.Error("the old certificate is still used")
	}
	if text := w.log.String(); strings.Count(text, "the changed files are in use") != 1 {
		t.Errorf("the log has:\n%s", text)
	}
}

// Whatever is wrong with new files, the last good ones stay in force until they are right.
func TestTheLastGoodFilesStayInForce(t *testing.T) {
	errWrong := errors.New("is no good")
	w := watch(t, func(c *Config) {
		c.Check = func(c *x509.Certificate) error {
			if len(c.URIs) > 0 {
				return errWrong
			}
			return nil
		}
	})
	good := w.serial()
	for want, mistake := range map[string]func(){
		"expired":        func() { w.ca.Write(w.dir, testcert.EndsIn(-time.Hour)) },
		errWrong.Error(): func() { w.ca.Write(w.dir, testcert.URIs("stint://peer/n1")) },
		"does not match": func() {
			key := w.Watcher.config.Files.Key
			w.ca.Write(w.dir)
			w.replace(t, key, w.other(t).Key)
		},
		"no certificate in": func() {
			w.ca.Write(w.dir)
			w.replace(t, w.Watcher.config.Files.CAs, w.Watcher.config.Files.Key)
		},
		"no such file": func() { w.ca.Write(w.dir); os.Remove(w.Watcher.config.Files.Key) },
		// as in the middle of a write
		"failed to find any ": func() { w.ca.Write(w.dir); os.Truncate(w.Watcher.config.Files.Cert, 0) },
	} {
		w.log.Reset()
		mistake()
		for range 5 {
			if got := w.serial(); got != good {
				t.Fatalf("%s: certificate %d is in use, not %d", want, got, good)
			}
		}
		if text := w.log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, want) {
			t.Errorf("%s: the log has:\n%s", want, text)
		}
	}
	w.ca.Write(w.dir)
	if w.serial() == good {
		t.Error("files that are right again are not taken")
	}
}

func (w *watched) other(t *testing.T) testcert.Files { return w.ca.Write(t.TempDir()) }

func (w *watched) replace(t *testing.T, name, by string) {
	t.Helper()
	text, err := os.ReadFile(by)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A flood of handshakes does not become a flood of system calls.
func TestFilesAreLookedAtOnceInAWhile(t *testing.T) {
	w := watch(t, func(c *Config) { c.Every = time.Second })
	first := w.serial()
	w.ca.Write(w.dir)
	w.now = w.now.Add(time.Second - 1)
	if w.serial() != first {
		t.Error("the files were looked at too early")
	}
	w.now = w.now.Add(1)
	second := w.serial()
	if second == first {
		t.Error("the files were not looked at")
	}
	w.ca.Write(w.dir)
	w.now = w.now.Add(-time.Hour)
	if w.serial() == second {
		t.Error("after the clock was set back the files are not looked at for an hour")
	}
}

func TestACertificateThatExpiresSoonIsLoggedEveryHour(t *testing.T) {
	w := watch(t, always, testcert.EndsIn(20*24*time.Hour))
	for _, step := range []struct {
		pass       time.Duration
		soon, over int // lines in the log since the last step
	}{
		{0, 0, 0}, {6*24*time.Hour + time.Minute, 1, 0}, {warnEvery - 1, 0, 0}, {1, 1, 0}, {14 * 24 * time.Hour, 0, 1},
		{warnEvery - 1, 0, 0}, {1, 0, 1},
	} {
		w.log.Reset()
		w.now = w.now.Add(step.pass)
		w.Current()
		w.Current()
		soon := strings.Count(w.log.String(), "it expires soon")
		over := strings.Count(w.log.String(), "it has expired, and clients refuse it")
		if soon != step.soon || over != step.over {
			t.Errorf("after %v more: %d and %d lines, want %d and %d:\n%s",
				step.pass, soon, over, step.soon, step.over, w.log.String())
		}
	}
}

// A certificate is accepted only while its whole chain is valid: the earliest expiry counts.
func TestTheFirstEndOfAChainCounts(t *testing.T) {
	ca := testcert.New(t)
	leaf, between := ca.Write(t.TempDir()), ca.Write(t.TempDir(), testcert.EndsIn(time.Hour))
	text, err := os.ReadFile(between.Cert)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := os.ReadFile(leaf.Cert)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(leaf.Cert, append(chain, text...), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := Load(Config{Files: Files{Cert: leaf.Cert, Key: leaf.Key}, Logger: slog.New(slog.DiscardHandler),
		Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	second, err := tls.LoadX509KeyPair(between.Cert, between.Key)
	if err != nil {
		t.Fatal(err)
	}
	if ends := w.Current().Ends; !ends.Equal(second.Leaf.NotAfter) {
		t.Errorf("it ends at %v, the chain's second certificate at %v", ends, second.Leaf.NotAfter)
	}
}

// One authority of several may expire while the others are good: the file is taken, and the log says so, once an hour.
func TestAnAuthorityThatExpiresIsLogged(t *testing.T) {
	w := watch(t, always)
	if w.Current().CAsEnd.IsZero() {
		t.Fatal("the end of the authority is not known")
	}
	text, err := os.ReadFile(w.Watcher.config.Files.CAs)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(w.ca.Write(t.TempDir(), testcert.EndsIn(20*24*time.Hour)).Cert)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.Watcher.config.Files.CAs, append(text, other...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		pass       time.Duration
		soon, over int // lines in the log since the last step
	}{{0, 0, 0}, {7 * 24 * time.Hour, 1, 0}, {warnEvery - 1, 0, 0}, {1, 1, 0}, {13 * 24 * time.Hour, 0, 1},
		{warnEvery, 0, 1}} {
		w.log.Reset()
		w.now = w.now.Add(step.pass)
		w.Current()
		w.Current()
		soon, over := strings.Count(w.log.String(), "an authority expires soon"),
			strings.Count(w.log.String(), "an authority has expired")
		if soon != step.soon || over != step.over {
			t.Errorf("after %v more: %d and %d lines, want %d and %d:\n%s",
				step.pass, soon, over, step.soon, step.over, w.log.String())
		}
	}
}
