package certfile

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/internal/observe/loglimit"
)

// Files names PEM files.
type Files struct {
	Cert string // the certificate, followed by those that lead to its authority
	Key  string // of the certificate
	CAs  string // authorities of the certificates that are accepted from others; "" if none are
}

// Config configures a Watcher. All fields are required except Check and Every.
type Config struct {
	Files Files
	Name  string // of the certificate in the log, as in "peer certificate"
	// Others is the side that refuses it when it has expired, in the singular, as in "client".
	Others string
	Check  func(*x509.Certificate) error // rejects a certificate that would otherwise come into use; may be nil
	Every  time.Duration                 // least time between two looks at the files; 0 checks them every time
	Logger *slog.Logger
	Now    func() time.Time
}

// Content is what the files had when they were last valid. It must not be changed.
type Content struct {
	Certificate tls.Certificate
	Ends        time.Time      // the earliest expiry in the certificate's chain
	CAs         *x509.CertPool // nil without such a file
	CAsEnd      time.Time      // the earliest expiry of an authority in that file; zero without such a file
}

// Watcher holds the files' last valid content.
type Watcher struct {
	config  Config
	content atomic.Pointer[Content]
	looked  atomic.Int64 // when the files were last looked at, in nanoseconds since the Unix epoch

	mu     sync.Mutex // guards stamps and told, and is held while files are read
	stamps stamps     // of the content
	told   stamps     // unusable files that were logged already

	certificateLines, authorityLines loglimit.Limit // of the log, about their end
}

// stamps identifies the versions of the files.
type stamps [3]struct {
	modified time.Time
	size     int64
}

// Load reads the files. The error names the file and the reason why it cannot be used.
func Load(config Config) (*Watcher, error) {
	w := &Watcher{
		config:           config,
		certificateLines: loglimit.Limit{Most: 1, Per: warnEvery},
		authorityLines:   loglimit.Limit{Most: 1, Per: warnEvery},
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked.Store(config.Now().UnixNano())
	if err := w.load(); err != nil {
		return nil, err
	}
	return w, nil
}

// Current returns the content in force, after a look at the files if one is due.
func (w *Watcher) Current() *Content {
	if w.due() {
		w.look()
	}
	return w.content.Load()
}

// due reports whether this caller should check the files now.
func (w *Watcher) due() bool {
	if w.config.Every == 0 {
		return true
	}
	now, last := w.config.Now().UnixNano(), w.looked.Load()
	soon := now >= last && now-last < int64(w.config.Every) // setting the clock back does not delay a look
	return !soon && w.looked.CompareAndSwap(last, now)
}

// look reads the files if they have changed since they were last valid.
func (w *Watcher) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.stat(); now != w.stamps {
		if err := w.load(); err != nil && now != w.told { // every look tries again
			w.told = now
			w.config.Logger.Error(w.config.Name+": the changed files cannot be used, going on with the last ones",
				"error", err)
		} else if err == nil {
			w.config.Logger.Info(w.config.Name+": the changed files are in use", "file", w.config.Files.Cert,
				"expires", w.content.Load().Ends)
		}
	}
	w.warn()
}

// load reads the files and uses them if they are valid together. The caller holds mu.
func (w *Watcher) load() error {
	files, stamps := w.config.Files, w.stat()
	own, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return err
	}
	content := &Content{Certificate: own}
	if content.Ends, err = timely(own, w.config.Now(), w.config.Others); err != nil { //mutant:bad-files-taken-in-part
		return fmt.Errorf("%s %w", files.Cert, err)
	}
	if files.CAs != "" {
		if content.CAs, content.CAsEnd, err = authorities(files.CAs); err != nil {
			return err
		}
	}
	if w.config.Check != nil {
		if err := w.config.Check(own.Leaf); err != nil {
			return fmt.Errorf("%s: %w", files.Cert, err)
		}
	}
	w.stamps = stamps
	w.content.Store(content)
	return nil
}

// Authorities reads a file of authorities' certificates.
func Authorities(file string) (*x509.CertPool, error) {
	pool, _, err := authorities(file)
	return pool, err
}

// authorities is Authorities with the earliest expiry.
func authorities(file string) (pool *x509.CertPool, end time.Time, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, end, err
	}
	pool = x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, end, fmt.Errorf("%s has no certificate in PEM", file)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		authority, err := x509.ParseCertificate(block.Bytes) // blocks other than certificates are skipped above, too
		if err == nil && (end.IsZero() || authority.NotAfter.Before(end)) {
			end = authority.NotAfter
		}
	}
	return pool, end, nil
}

// timely returns until when others accept a certificate and its chain, or an error if they do not accept it now.
func timely(own tls.Certificate, now time.Time, others string) (ends time.Time, err error) {
	for _, raw := range own.Certificate {
		certificate, err := x509.ParseCertificate(raw)
		switch {
		case err != nil:
			return ends, err
		case now.After(certificate.NotAfter): //mutant:expired-certificate-taken
			return ends, fmt.Errorf("expired %v ago, at %v: no %s accepts it; issue a new one",
				now.Sub(certificate.NotAfter).Round(time.Second),
				certificate.NotAfter.UTC().Format(time.RFC3339), others)
		case now.Before(certificate.NotBefore):
			return ends, fmt.Errorf("is valid from %v on, in %v: no %s accepts it before; "+
				"issue another one, or set the clock", certificate.NotBefore.UTC().Format(time.RFC3339),
				certificate.NotBefore.Sub(now).Round(time.Second), others)
		}
		if ends.IsZero() || certificate.NotAfter.Before(ends) {
			ends = certificate.NotAfter
		}
	}
	return ends, nil
}

// stat returns the present versions of the files. A missing file has the zero version, so its return is a change.
func (w *Watcher) stat() (s stamps) {
	for i, name := range []string{w.config.Files.Cert, w.config.Files.Key, w.config.Files.CAs} {
		if info, err := os.Stat(name); err == nil {
			s[i].modified, s[i].size = info.ModTime(), info.Size()
		}
	}
	return s
}

const (
	endsSoon  = 14 * 24 * time.Hour
	warnEvery = time.Hour
)

// warn logs that the certificate or an authority expires soon, or has expired while the process ran. The certificates
// of an expired authority are refused, even valid ones: the node may start with such a file, since another authority in
// it may be all that is needed.
func (w *Watcher) warn() {
	content, files, name := w.content.Load(), w.config.Files, w.config.Name
	w.warnOf(&w.certificateLines, files.Cert, content.Ends, name+": it expires soon: put a new one in its place",
		fmt.Sprintf("%s: it has expired, and %ss refuse it: put a new one in its place", name, w.config.Others))
	w.warnOf(&w.authorityLines, files.CAs, content.CAsEnd,
		"an authority expires soon: replace it, or take it out of the file",
		"an authority has expired, and its certificates are refused: replace it, or take it out of the file")
}

// warnOf logs one of two texts about a file whose content ends soon, or has ended. ends is zero if there is no file.
func (w *Watcher) warnOf(lines *loglimit.Limit, file string, ends time.Time, soon, over string) {
	now := w.config.Now()
	left := ends.Sub(now)
	if ends.IsZero() || left > endsSoon {
		return
	}
	if _, ok := lines.Allow("", now); !ok {
		return
	}
	if left <= 0 {
		w.config.Logger.Error(over, "file", file, "expired", ends)
		return
	}
	w.config.Logger.Warn(soon, "file", file, "expires", ends, "left", left.Round(time.Minute))
}
