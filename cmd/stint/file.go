package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// openInput opens a file, or stdin for "-". The caller closes what it returns; that leaves stdin open.
func openInput(name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	return os.Open(name)
}

// writeAtomically writes a file in one step: its name has either the old content, or the new one, complete and on disk.
// What is no file stays: in the place of a pipe its reader would wait for ever, and in that of a device, as /dev/null,
// every other process would find a file.
func writeAtomically(name string, mode fs.FileMode, write func(io.Writer) error) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() { //mutant:file-in-the-place-of-a-device
		return fmt.Errorf("%s is not a regular file (its type is %v): name another one", name, info.Mode().Type())
	}
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
