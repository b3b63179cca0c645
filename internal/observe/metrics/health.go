package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Health is what a node knows of itself and its cluster at a scrape. A zero time stands for one that is not known, and is left
// out.
type Health struct {
	Ready         bool
	ShardsUnowned int       // shards without an owner that this node has heard of
	DiskLow       bool      // requests are refused for lack of room on the disk
	Convicted     int       // replicas here whose records were wrong within the last day
	Distrusted    time.Time // when a process of this node last ended itself because its disk could not be trusted
	LastBackup    time.Time
	// CertificateEnds is by port: "api", "peer".
	CertificateEnds map[string]time.Time
	// SumsAgreed is when the replica of a shard here last had the same new sum as a majority. Groups of one are not in it.
	SumsAgreed map[uint32]time.Time
	// ClockAhead is how far the machine's clock is ahead of the median of the other nodes' clocks, if ClockKnown.
	ClockAhead time.Duration
	ClockKnown bool
	TopBytes   int
}

// health asks once for each scrape.
type health struct {
	ask  func() Health
	desc map[string]*prometheus.Desc
}

// Health registers the state of the node. Call it once, before the first scrape.
func (m *Metrics) Health(ask func() Health) {
	h := health{ask: ask, desc: make(map[string]*prometheus.Desc)}
	for name, about := range map[string]struct {
		help   string
		labels []string
	}{
		"ready":                                {"1: the node can serve or forward every shard.", nil},
		"shards_unowned":                       {"Shards without an owner that this node has heard of.", nil},
		"disk_low":                             {"1: requests are refused for lack of room on the disk.", nil},
		"replicas_convicted":                   {"Replicas whose records were found wrong within the last day.", nil},
		"disk_distrusted_timestamp_seconds":    {"When this node last ended itself because its disk could not be trusted; absent: it never did.", nil},
		"last_backup_timestamp_seconds":        {"When the newest backup was begun; absent: none is known.", nil},
		"certificate_expiry_timestamp_seconds": {"When the certificate of a port expires.", []string{"port"}},
		"sums_agreed_timestamp_seconds":        {"When the replica last agreed with a majority about a new sum.", []string{"shard"}},
		"clock_ahead_seconds":                  {"How far the clock is ahead of the median of the nodes'.", nil},
		"top_bytes":                            {"Memory of the keys that stand out.", nil},
	} {
		h.desc[name] = prometheus.NewDesc("stint_"+name, about.help, about.labels, nil)
	}
	m.registry.MustRegister(h)
}

// Describe implements prometheus.Collector.
func (h health) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range h.desc {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (h health) Collect(to chan<- prometheus.Metric) {
	now := h.ask()
	gauge := func(name string, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(h.desc[name], prometheus.GaugeValue, value, labels...)
	}
	instant := func(name string, at time.Time, labels ...string) {
		if !at.IsZero() {
			gauge(name, float64(at.UnixMilli())/1000, labels...)
		}
	}
	gauge("ready", oneIf(now.Ready))
	gauge("shards_unowned", float64(now.ShardsUnowned))
	gauge("disk_low", oneIf(now.DiskLow))
	gauge("replicas_convicted", float64(now.Convicted))
	gauge("top_bytes", float64(now.TopBytes))
	instant("disk_distrusted_timestamp_seconds", now.Distrusted)
	instant("last_backup_timestamp_seconds", now.LastBackup)
	for port, ends := range now.CertificateEnds {
		instant("certificate_expiry_timestamp_seconds", ends, port)
	}
	for shard, at := range now.SumsAgreed {
		instant("sums_agreed_timestamp_seconds", at, number(shard))
	}
	if now.ClockKnown {
		gauge("clock_ahead_seconds", now.ClockAhead.Seconds())
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
