package node

import (
	"math"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// maxRecordBytes is how many bytes of records each of a node's shards may hold. All of them together may hold half of the
// memory that the process may use, which leaves room for the garbage collector and for a snapshot under way. That memory is
// GOMEMLIMIT where it is set (in a container it should be), else the machine's.
func maxRecordBytes(shards uint32) int {
	memory := debug.SetMemoryLimit(-1)
	if memory == math.MaxInt64 {
		memory = machineMemory()
	}
	return int(memory / 2 / int64(shards))
}

// machineMemory is the size of the machine's memory in bytes.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 4 << 30 // unknown: assume as small a machine as is likely
	}
	return int64(info.Totalram) * int64(info.Unit)
}
