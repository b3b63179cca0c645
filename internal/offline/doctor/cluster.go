package doctor

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// Thresholds for warnings and faults.
const (
	lagSuspect = 8192 // log entries; a snapshot is written after so many
	// At 200 ms the cluster calls it a problem, at 400 ms an owner gives its shards away.
	clockSuspect   = 100 * time.Millisecond
	clockWrong     = 200 * time.Millisecond
	writeSuspect   = 10 * time.Millisecond // every answer waits for a write
	writeStalled   = time.Second           // an election takes about as long
	diskSuspect    = 2 << 30               // bytes
	day            = 24 * time.Hour
	certificateDue = 30 * day
	certificateEnd = 14 * day // from then on the cluster calls it a problem
)

// cluster examines the nodes' reports. Causes come before their consequences. now is this machine's clock, for ages.
func (d *doctor) cluster(m *stintv1.StatusResponse, now time.Time) {
	if len(m.Problems) > 0 {
		d.add("status", Wrong, strings.Join(m.Problems, "; "), "docs/operations.md says what to do about each")
	}
	before, examined := len(d.findings), "all"
	for _, n := range m.Nodes {
		if n.State == "removed" {
			continue
		}
		if d.node(n, now); !n.Alive {
			examined = "all that answer"
		}
	}
	for _, check := range []struct{ name, text string }{{"clocks", "within 100 ms on " + examined},
		{"fsync", "no slow write of the log in the last minute on " + examined}, {"disk", "room on " + examined},
		{"memory", "room on " + examined}, {"certificates", "none ends within 30 days on " + examined}} {
		d.fineSince(before, check.name, check.text)
	}
	for _, shard := range m.Shards {
		d.quorum(shard)
		d.lag(shard)
	}
	d.fineSince(before, "quorum", fmt.Sprintf("%s have an owner and a majority of their copies",
		plural(len(m.Shards), "shard")))
	d.fineSince(before, "lag", "no copy is far behind")
	d.backup(m.LastBackup, now)
}

func (d *doctor) quorum(m *stintv1.Shard) {
	voters, well := 0, 0
	var silent []string
	for _, r := range m.Replicas {
		if r.Voter {
			voters++
			switch {
			case !r.Known:
				silent = append(silent, r.Node)
			case !r.Lost:
				well++
			}
		}
	}
	switch {
	case m.Owner == "":
		d.add("quorum", Wrong, fmt.Sprintf("shard %s has no owner: it decides nothing; %d of %d copies answer",
			m.Name, well, voters),
			"start the nodes that are down; if their disks are lost: stint tool recover (docs/operations.md)")
	case 2*well <= voters:
		d.add("quorum", Wrong, fmt.Sprintf("shard %s: only %d of %d copies answer, which is no majority",
			m.Name, well, voters),
			"start the nodes that are down")
	case well < voters:
		do := "a copy that is lost is made again by itself: look again in a minute"
		if len(silent) > 0 {
			do = fmt.Sprintf("start %[1]s; if it is gone for good, start another node first, "+
				"and then stint cluster remove-node %[1]s: in the other order shards lose copies",
				strings.Join(silent, ", "))
		}
		d.add("quorum", Suspect, fmt.Sprintf("shard %s: %d of %d copies answer", m.Name, well, voters), do)
	}
}

func (d *doctor) lag(m *stintv1.Shard) {
	for _, r := range m.Replicas {
		if r.Known && r.Lag > lagSuspect {
			d.add("lag", Suspect, fmt.Sprintf("shard %s: the copy on %s is %d entries behind", m.Name, r.Node, r.Lag),
				"it catches up by itself; if it does not, look at that node's disk and network")
		}
	}
}

func (d *doctor) node(n *stintv1.Node, now time.Time) {
	if ahead := n.ClockAhead.AsDuration().Round(time.Millisecond); n.Alive && ahead.Abs() > clockSuspect {
		state := Suspect
		if ahead.Abs() > clockWrong {
			state = Wrong
		}
		d.add("clocks", state, fmt.Sprintf("%s's clock is %v ahead of the answering node's (behind, if negative)",
			n.Id, ahead),
			"run NTP on both")
	}
	d.certificate(n.Id, "API", n.ApiCertificateEnds, now)
	d.certificate(n.Id, "peer", n.PeerCertificateEnds, now)
	m := n.Machine
	if m == nil {
		if n.Alive {
			d.add("disk", Unknown, n.Id+" says nothing of its machine", "it has only just started")
		}
		return
	}
	d.disk(n.Id, m)
	d.memory(n.Id, m)
}

func (d *doctor) disk(node string, m *stintv1.Machine) {
	switch mean, slowest := m.LogWriteMean.AsDuration(), m.LogWriteSlowest.AsDuration(); {
	case slowest > writeStalled:
		d.add("fsync", Wrong, fmt.Sprintf("%s: a write of the log took %v in the last minute",
			node, slowest.Round(time.Millisecond)),
			"another program, or the disk itself: look at its latency (iostat -x 1), and give stint a disk of its own")
	case mean > writeSuspect:
		d.add("fsync", Suspect, fmt.Sprintf("%s: a write of the log takes %v, and every answer waits for one",
			node, mean.Round(100*time.Microsecond)),
			"stint tool bench --floor DIR measures the disk")
	}
	switch {
	case m.DiskFull:
		d.add("disk", Wrong, fmt.Sprintf("%s: %s free: it takes no writes", node, bytesText(m.DiskFree)),
			"make room on its disk")
	case m.DiskFree > 0 && m.DiskFree < diskSuspect:
		d.add("disk", Suspect, fmt.Sprintf("%s: %s free", node, bytesText(m.DiskFree)),
			"make room, before it refuses writes at 64 MiB")
	}
}

func (d *doctor) memory(node string, m *stintv1.Machine) {
	const eighths = 8
	switch limit := m.RecordBytesLimit; {
	case limit > 0 && m.RecordBytes >= limit/eighths*7:
		d.add("memory", Wrong, fmt.Sprintf("%s: records take %s of %s: new keys are refused",
			node, bytesText(m.RecordBytes), bytesText(limit)),
			"more memory for the nodes (GOMEMLIMIT), or max_keys for the policy whose keys grow (stint_policy_keys)")
	case limit > 0 && m.RecordBytes >= limit/eighths*5:
		d.add("memory", Suspect, fmt.Sprintf("%s: records take %s of %s",
			node, bytesText(m.RecordBytes), bytesText(limit)),
			"from seven eighths on new keys are refused: plan more memory")
	case m.MemoryLimit > 0 && m.Memory > m.MemoryLimit/20*19:
		d.add("memory", Suspect, fmt.Sprintf("%s: the process has %s of %s",
			node, bytesText(m.Memory), bytesText(m.MemoryLimit)),
			"set GOMEMLIMIT below what the container may have")
	}
}

func (d *doctor) certificate(node, which string, ends *timestamppb.Timestamp, now time.Time) {
	if ends == nil {
		return
	}
	left := ends.AsTime().Sub(now)
	found := fmt.Sprintf("%s: its %s certificate ends in %d days", node, which, left/day)
	const renew = "put a new one in its place, without a restart (docs/operations.md, Certificates)"
	switch {
	case left <= 0:
		d.add("certificates", Wrong, fmt.Sprintf("%s: its %s certificate has expired", node, which), renew)
	case left <= certificateEnd:
		d.add("certificates", Wrong, found, renew)
	case left <= certificateDue:
		d.add("certificates", Suspect, found, renew)
	}
}

func (d *doctor) backup(last *timestamppb.Timestamp, now time.Time) {
	const check = "backup"
	if last == nil {
		d.add(check, Suspect, "none that is known of",
			"stint backup FILE, and deploy/stint-backup.timer to make one each hour")
		return
	}
	age := now.Sub(last.AsTime()).Round(time.Second)
	if age > d.BackupAge {
		d.add(check, Suspect, fmt.Sprintf("the newest one is %v old", age),
			"does the timer still run? stint backup FILE makes one")
		return
	}
	d.fine(check, "%v old", age)
}

// bytesText formats bytes for display.
func bytesText(bytes uint64) string {
	const unit = 1 << 10
	switch {
	case bytes >= unit*unit*unit:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(unit*unit*unit))
	case bytes >= unit*unit:
		return fmt.Sprintf("%d MiB", bytes/(unit*unit))
	}
	return fmt.Sprintf("%d KiB", bytes/unit)
}
