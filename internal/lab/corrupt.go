package lab

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Corrupt flips one bit of every file below a node's data directory that has at least `least` bytes and whose base name
// matches the pattern (of path/filepath), a third of the way into it. The node must have ended. It answers how many
// files it hurt.
func (c *Cluster) Corrupt(i int, pattern string, least int) (files int, err error) {
	if c.Running(i) {
		return 0, fmt.Errorf("lab: %s still runs", c.Name(i))
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
