package node

import "github.com/stint-io/stint/cluster/placement"

// machine says what an operator should know of the machine of this node. It holds no state; all methods may be called
// concurrently.
type machine struct {
	dir      *dataDir
	replicas *replicaSet
	memory   int64 // that this process may use
	budget   *recordBudget
	writes   *writeTimes
}

func (m *machine) report() *placement.Machine {
	r := &placement.Machine{DiskFree: m.dir.stores.FreeBytes(), Memory: memoryInUse(),
		MemoryLimit: uint64(max(0, m.memory))}
	r.LogWriteMean, r.LogWriteSlowest = m.writes.lately()
	r.RecordBytes, r.RecordLimit = uint64(m.replicas.recordBytes()), uint64(m.budget.most)
	return r
}
