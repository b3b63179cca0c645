package peer

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
)

// KeyFile is a cluster key file that may change while the node runs. One goroutine calls Refresh; the other methods may
// be called concurrently.
type KeyFile struct {
	name   string
	logger *slog.Logger

	read    []byte // what was read last; owned by Refresh
	taken   []byte // the content in force; likewise
	said    string // why the content cannot be used, as logged; likewise
	inForce atomic.Pointer[ClusterKey]
}

// OpenKeyFile reads a cluster key file. Refresh takes up later changes.
func OpenKeyFile(name string, logger *slog.Logger) (*KeyFile, error) {
	f := &KeyFile{name: name, logger: logger}
	text, err := readKeyFile(name)
	if err != nil {
		return nil, err
	}
	key, err := ParseClusterKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.read, f.taken = text, text
	f.inForce.Store(key)
	return f, nil
}

// Key returns the content in force.
func (f *KeyFile) Key() *ClusterKey { return f.inForce.Load() }

// Refresh reads the file again and reports whether other content is in force now. New content is taken when two calls
// one after the other have read the same: a file that is being written may seem to lack lines. Content that cannot be
// used is logged once, and the last good content stays in force. Call it about once a second.
func (f *KeyFile) Refresh() (changed bool) {
	text, err := readKeyFile(f.name)
	if err != nil {
		f.complain(err)
		return false
	}
	settled := bytes.Equal(text, f.read)
	f.read = text
	if !settled { //mutant:key-file-half-written
		return false
	}
	if bytes.Equal(text, f.taken) {
		f.said = ""
		return false
	}
	key, err := ParseClusterKey(text)
	if err != nil {
		f.complain(fmt.Errorf("%s: %w", f.name, err))
		return false
	}
	f.taken, f.said = text, ""
	f.inForce.Store(key) //mutant:removed-line-accepted
	f.logger.Info("cluster key: the file has changed; the first line sends, all are accepted", "file", f.name, "lines",
		key.Fingerprints())
	return true
}

func (f *KeyFile) complain(err error) {
	if f.said != err.Error() {
		f.said = err.Error()
		f.logger.Error("cluster key: the changed file cannot be used, going on with the last content", "error", err)
	}
}

func readKeyFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, keyFileMost+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// MakeKeyFile creates a file with one random line of 32 bytes in hex, which only its owner may read. A file that is
// there stays as it is: of several processes that make it at the same time, one does, and all read the same key.
func MakeKeyFile(name string) error {
	var key [keyBytes]byte
	rand.Read(key[:])
	f, err := os.CreateTemp(filepath.Dir(name), ".stint-key-") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(hex.EncodeToString(key[:]) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), name); !errors.Is(err, fs.ErrExist) { //mutant:cluster-key-replaced
		return err
	}
	return nil
}
