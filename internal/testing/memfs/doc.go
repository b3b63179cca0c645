// Package memfs provides a disk in memory that can crash, for tests: a CrashClone of it loses the data that was not
// fsynced.
//
// It owns the bytes and knows nothing about their writers. Everything may be called concurrently, and works in
// testing/synctest bubbles.
package memfs
