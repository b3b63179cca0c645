package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Health is what a node knows of itself and its cluster at a scrape. Zero times are unknown and left out.
type Health struct {
	Ready         bool
	ShardsUnowned int       // shards without an owner that this node has heard of
	DiskLow       bool      // requests are refused for lack of room on the disk
	DiskFree      uint64    // bytes for the data directory; 0 if not known
	RecordsMost   uint64    // bytes that the records of all replicas here may take; 0 if not known
	Convicted     int       // replicas here with records found wrong within the last day
	Distrusted    time.Time // when a process of this node last ended itself because its disk could not be trusted
	LastBackup    time.Time
	// CertificateEnds is by port: "api", "peer".
	CertificateEnds map[string]time.Time
	// SumsAgreed is when the replica of a shard here last had the same new sum as a majority. It has no groups of one.
	SumsAgreed map[uint32]time.Time
	// ClockAhead is how far the machine's clock is ahead of the median of the other nodes' clocks, if ClockKnown.
	ClockAhead time.Duration
	ClockKnown bool
	TopBytes   int // memory of the keys that stand out (package top)
	// WantedShards are to share all slots; 0: not known, and so are the others.
	WantedShards uint32
	Slots        map[uint32]int // by shard
	SlotsToMove  int            // until the wanted shards have equally many
	SlotsMoving  int            // part of SlotsToMove
	// Replicas are the copies of shards here.
	Replicas      map[uint32]Replica
	ShardsStopped int // shards whose copy here decides nothing, because its records cannot be trusted
	// HopRequests and HopFrames are the requests that this node has forwarded to others, and their frames. They only
	// grow.
	HopRequests, HopFrames uint64
	DenialsKept            int // denials that the node may repeat without asking again
	LeasesHeld             int // leases from which this node answers
	Edges                  int // that are connected
}

// Replica is the size of a shard, as its copy here knows it.
type Replica struct {
	Keys, Bytes int            // records, and the memory that they take
	LegsOpen    int            // parts of operations on several shards that are charged and not ended
	PolicyKeys  map[string]int // keys of each policy with max_keys, in the namespace that has most
}

// health calls its function once for each scrape. It describes no series beforehand, since most may be absent.
type health func() Health

// Health registers the state of the node. Call it once, before the first scrape.
func (m *Metrics) Health(ask func() Health) { m.registry.MustRegister(health(ask)) }

// Describe implements prometheus.Collector.
func (health) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (h health) Collect(to chan<- prometheus.Metric) {
	now := h()
	send := func(kind prometheus.ValueType, name, help string, value float64, label []string) {
		desc := prometheus.NewDesc("stint_"+name, help, label[:len(label)/2], nil)
		to <- prometheus.MustNewConstMetric(desc, kind, value, label[len(label)/2:]...)
	}
	gauge := func(name, help string, value float64, label ...string) { // labels, and then their values
		send(prometheus.GaugeValue, name, help, value, label)
	}
	instant := func(name, help string, at time.Time, label ...string) {
		if !at.IsZero() {
			gauge(name+"_timestamp_seconds", help, float64(at.UnixMilli())/1000, label...)
		}
	}
	gauge("ready", "1: the node can serve or forward every shard.", oneIf(now.Ready))
	gauge("shards_unowned", "Shards without an owner that this node has heard of.", float64(now.ShardsUnowned))
	gauge("disk_low", "1: requests are refused for lack of room on the disk.", oneIf(now.DiskLow))
	if now.DiskFree > 0 {
		gauge("disk_free_bytes", "What the disk has left for the data directory.", float64(now.DiskFree))
	}
	if now.RecordsMost > 0 {
		gauge("record_bytes_limit", "Memory that the records of all shards may take.", float64(now.RecordsMost))
	}
	gauge("replicas_convicted", "Replicas whose records were found wrong within the last day.", float64(now.Convicted))
	gauge("top_bytes", "Memory of the keys that stand out.", float64(now.TopBytes))
	instant("disk_distrusted",
		"When this node last ended itself because its disk could not be trusted; absent: it never did.", now.Distrusted)
	instant("last_backup", "When the newest backup was begun; absent: none is known.", now.LastBackup)
	for port, ends := range now.CertificateEnds {
		instant("certificate_expiry", "When the certificate of a port expires.", ends, "port", port)
	}
	for shard, at := range now.SumsAgreed {
		instant("sums_agreed",
			"When the replica last agreed with a majority about a new sum.", at, "shard", shardLabel(shard))
	}
	send(prometheus.CounterValue, "hop_requests_total", "Requests forwarded to the node that owns them.",
		float64(now.HopRequests), nil)
	send(prometheus.CounterValue, "hop_frames_total", "Frames in which requests were forwarded.",
		float64(now.HopFrames), nil)
	gauge("shards_stopped", "Shards of which the copy here decides nothing.", float64(now.ShardsStopped))
	gauge("denials_kept", "Denials that may be repeated without asking again.", float64(now.DenialsKept))
	gauge("leases_held", "Leases from which checks are answered without asking the owners of their keys.",
		float64(now.LeasesHeld))
	gauge("edges", "Edges that are connected to this node.", float64(now.Edges))
	h.replicas(now, gauge)
	h.slots(now, gauge)
	if now.ClockKnown {
		gauge("clock_ahead_seconds",
			"How far the clock is ahead of the median of the nodes'.", now.ClockAhead.Seconds())
	}
}

func (health) replicas(now Health, gauge func(name, help string, value float64, label ...string)) {
	for id, r := range now.Replicas {
		shard := shardLabel(id)
		gauge("keys", "Records kept.", float64(r.Keys), "shard", shard)
		gauge("record_bytes", "Memory that the records take.", float64(r.Bytes), "shard", shard)
		gauge("legs_open", "Parts of operations on several shards that are charged here, and not ended.",
			float64(r.LegsOpen), "shard", shard)
		for policy, keys := range r.PolicyKeys {
			gauge("policy_keys", "Keys of a policy with max_keys, in the namespace that has most.", float64(keys),
				"shard", "policy", shard, policy)
		}
	}
}

func (health) slots(now Health, gauge func(name, help string, value float64, label ...string)) {
	if now.WantedShards == 0 {
		return
	}
	gauge("shards_wanted", "Shards that share all slots, or are to.", float64(now.WantedShards))
	gauge("slots_to_move", "Slots to move until these shards have equally many.", float64(now.SlotsToMove))
	gauge("slots_moving", "Slots that are moving.", float64(now.SlotsMoving))
	for shard, slots := range now.Slots {
		gauge("slots", "Slots of a shard.", float64(slots), "shard", shardLabel(shard))
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
