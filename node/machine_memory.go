package node

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
)

// Memory returns how many bytes this process may use: GOMEMLIMIT where it is set, else the limit of its container or
// unit, else the machine's memory. If none of them is known, it returns the memory of a small machine.
func Memory() int64 {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit
	}
	return min(machineMemory(), controlGroupMemory(os.DirFS("/")))
}

// controlGroupMemory returns the least memory that this process's control group and those around it allow, on a machine
// with the given files. A container may be told the names that its groups have outside, and see only its own as the
// root: the files that are missing are passed over, and the root is always read.
func controlGroupMemory(root fs.FS) int64 {
	least := int64(math.MaxInt64)
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines("0::/\n0:memory:/\n" + string(groups)) { // version 2, and 1
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(line, ":")
		var mount, file string
		switch controllers {
		case "":
			mount, file = "sys/fs/cgroup", "memory.max"
		case "memory":
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for group = path.Clean("/" + group); ; group = path.Dir(group) {
			text, _ := fs.ReadFile(root, path.Join(mount, group, file))
			if limit, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil { // else "max"
				least = min(least, limit)
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}

const unknownMemory = 4 << 30

// memoryInUse returns how many bytes of memory the Go runtime has from the machine. To ask is cheap, and stops nothing.
func memoryInUse() uint64 {
	asked := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(asked)
	return asked[0].Value.Uint64() - asked[1].Value.Uint64()
}
