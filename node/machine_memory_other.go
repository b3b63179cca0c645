//go:build !linux

package node

// machineMemory is the size of the machine's memory in bytes. Only Linux is asked.
func machineMemory() int64 { return unknownMemory }
