package main

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

func openInput(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	return os.Open(name)
}

// writeAtomically writes a file in one step: its name has either the old content, or the new one, complete and on disk.
func writeAtomically(name string, mode fs.FileMode, write func(io.Writer) error) error {
	dir := filepath.Dir(name)
	draft, err := os.CreateTemp(dir, "."+filepath.Base(name)+".*.part") // with mode 0600
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(draft, 64<<10)
	err = write(out)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = draft.Chmod(mode)
	}
	if err == nil {
		err = draft.Sync()
	}
	err = errors.Join(err, draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft.Name()))
	}
	above, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(above.Sync(), above.Close())
}
