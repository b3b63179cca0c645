// Package memfs is a disk in memory that can crash, for tests: what was not fsynced is lost in a CrashClone of it.
//
// What it owns: the bytes. What it never knows: who wrote them. Everything may be called concurrently; it works in
// testing/synctest bubbles.
package memfs
