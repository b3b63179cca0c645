package decisions

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// FileConfig configures the file of a log.
type FileConfig struct {
	Path  string
	Bytes int64 // size from which another file is begun
	Files int   // number of files kept, including the current one: PATH, PATH.1, PATH.2 and so on
}

// file is a log file with its older ones.
type file struct {
	config FileConfig
	out    *os.File // nil if not open
	size   int64    // of out, as far as this process knows
}

// File makes the Output of a log file, readable by its owner alone. Nothing is opened before Reopen.
func File(config FileConfig) Output { return &file{config: config} }

// Reopen implements Output.
func (f *file) Reopen() error {
	if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		f.out = nil // closed even if Close failed
	}
	out, err := os.OpenFile(f.config.Path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("decision log: %w", err)
	}
	info, err := out.Stat()
	if err != nil {
		out.Close()
		return fmt.Errorf("decision log: %w", err)
	}
	f.out, f.size = out, info.Size()
	if f.endsInALine(info) { //mutant:line-continues-a-cut-one
		return nil
	}
	n, err := f.out.WriteString("\n")
	f.size += int64(n)
	return err
}

// endsInALine reports whether the next line begins at the end of the file. It does not where a crash has cut the last
// one.
func (f *file) endsInALine(info os.FileInfo) bool {
	if f.size == 0 || !info.Mode().IsRegular() {
		return true
	}
	in, err := os.Open(f.config.Path)
	if err != nil {
		return true // it may be written, and not read
	}
	defer in.Close()
	var last [1]byte
	_, err = in.ReadAt(last[:], f.size-1)
	return err != nil || last[0] == '\n'
}

// Write implements Output. Lines are never split between two files, and a line cut by a full disk is taken back.
func (f *file) Write(lines []byte) (int, error) {
	if f.out == nil {
		return 0, fmt.Errorf("decision log: %w", os.ErrClosed)
	}
	if f.size > 0 && f.size+int64(len(lines)) > f.config.Bytes {
		if err := f.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := f.out.Write(lines)
	f.size += int64(n)
	if err != nil && n > 0 {
		if f.out.Truncate(f.size-int64(n)) == nil {
			f.size -= int64(n)
		}
	}
	return n, err
}

// rotate renames the files and opens another one. It goes on after a failure, so that a file is open if there can be
// one.
func (f *file) rotate() error {
	err := f.Close()
	if f.config.Files <= 1 {
		err = errors.Join(err, os.Remove(f.config.Path))
	}
	for i := f.config.Files - 1; i > 0; i-- {
		if moved := os.Rename(f.older(i-1), f.older(i)); moved != nil && !errors.Is(moved, os.ErrNotExist) {
			err = errors.Join(err, moved)
		}
	}
	return errors.Join(err, f.Reopen())
}

// older returns the name of the i-th older file; 0 is the current one.
func (f *file) older(i int) string {
	if i == 0 {
		return f.config.Path
	}
	return f.config.Path + "." + strconv.Itoa(i)
}

// Close implements Output.
func (f *file) Close() error {
	if f.out == nil {
		return nil
	}
	err := f.out.Close()
	f.out = nil
	return err
}

// To makes an Output of a writer, such as the standard output. It is not closed.
func To(w io.Writer) Output { return writer{w} }

// writer is the Output of To. Its Reopen mends nothing: the next Write tries again.
type writer struct{ io.Writer }

func (writer) Reopen() error { return nil }
func (writer) Close() error  { return nil }
