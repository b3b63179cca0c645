//go:build !linux

package raftfsm

import "os"

func writeBack(file *os.File) error { return file.Sync() }
