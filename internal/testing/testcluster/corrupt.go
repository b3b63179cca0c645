package testcluster

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Corrupt damages a node's files: it flips one bit, a third of the way in, of every file below the data directory that
// has at least `least` bytes and a base name that matches the pattern (of path/filepath). The node must have ended. It
// returns the number of damaged files.
func (c *Cluster) Corrupt(i int, pattern string, least int) (files int, err error) {
	if c.Running(i) {
		return 0, fmt.Errorf("testcluster: %s still runs", c.Name(i))
	}
	err = filepath.WalkDir(c.Dir(i), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if matches, err := filepath.Match(pattern, d.Name()); err != nil || !matches {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 || len(text) < least {
			return err
		}
		text[len(text)/3] ^= 0x10
		files++
		return os.WriteFile(path, text, 0o600)
	})
	return files, err
}
