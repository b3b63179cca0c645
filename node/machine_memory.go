package node

import (
	"bytes"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
)

// Memory returns how many bytes this process may use: GOMEMLIMIT where it is set, else the limit of its container, else
// the machine's memory. If none of them is known, it returns the memory of a small machine.
func Memory() int64 {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit
	}
	most := machineMemory()
	// versions 2 and 1
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if text, err := os.ReadFile(file); err == nil {
			if limit, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil { // else "max"
				most = min(most, limit)
			}
		}
	}
	return most
}

const unknownMemory = 4 << 30

// memoryInUse returns how many bytes of memory the Go runtime has from the machine. To ask is cheap, and stops nothing.
func memoryInUse() uint64 {
	asked := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(asked)
	return asked[0].Value.Uint64() - asked[1].Value.Uint64()
}
