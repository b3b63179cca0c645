//go:build !linux

package raftfsm

import "github.com/cockroachdb/pebble/v2/vfs"

func writeBack(file vfs.File) error { return file.Sync() }
