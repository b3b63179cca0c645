//go:build !linux

package load

import "os"

func syncData(file *os.File) error { return file.Sync() }
