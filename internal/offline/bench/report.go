package bench

import (
	"strings"
	"syscall"
	"time"

	hdrhistogram "github.com/HdrHistogram/hdrhistogram-go"
)

// Report is the result of a run. A check is one decision asked for; a call carries one check, or a batch of them.
type Report struct {
	Address     string   `json:"address"` // all nodes' addresses, separated by commas
	Protocol    Protocol `json:"protocol"`
	Policy      string   `json:"policy"`
	Callers     int      `json:"callers"`
	Connections int      `json:"connections"`
	Keys        int      `json:"keys"`
	KeyPrefix   string   `json:"keyPrefix"`
	Batch       int      `json:"batch"`
	Rate        float64  `json:"rate,omitempty"` // open loop: calls per second that were due

	Seconds         float64 `json:"seconds"`
	Calls           uint64  `json:"calls"`
	Checks          uint64  `json:"checks"`
	CallsPerSecond  float64 `json:"callsPerSecond"`
	ChecksPerSecond float64 `json:"checksPerSecond"`
	Latency         Latency `json:"latencyMicros"`

	// Checks by fate.
	Admitted uint64                 `json:"admitted"`
	Denied   uint64                 `json:"denied"`
	Failed   uint64                 `json:"failed"`  // certainly not counted
	Unknown  uint64                 `json:"unknown"` // counted once or not at all
	Errors   map[string]*ErrorCount `json:"errors,omitempty"`
	Unsent   uint64                 `json:"unsentCalls,omitempty"` // open loop: calls that were due and never sent

	// Processor time per decided check, in microseconds; 0 if unknown.
	ServerCPUMicros float64 `json:"serverCpuMicrosPerCheck,omitempty"`
	ClientCPUMicros float64 `json:"clientCpuMicrosPerCheck,omitempty"`

	// From the nodes' own counters; 0 if unknown, or none.
	ForwardedShare float64 `json:"forwardedShare,omitempty"` // requests forwarded to their owner, per decided check
	MeanFrame      float64 `json:"meanFrame,omitempty"`      // forwarded requests that traveled together
	MeanBatch      float64 `json:"meanBatch,omitempty"`      // requests that were decided together

	Verdict Verdict `json:"verdict"`
}

// Latency is the distribution of the calls' latencies, in microseconds.
type Latency struct {
	P50  int64   `json:"p50"`
	P90  int64   `json:"p90"`
	P99  int64   `json:"p99"`
	P999 int64   `json:"p999"`
	Max  int64   `json:"max"`
	Mean float64 `json:"mean"`
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	return Latency{
		P50:  h.ValueAtQuantile(50),
		P90:  h.ValueAtQuantile(90),
		P99:  h.ValueAtQuantile(99),
		P999: h.ValueAtQuantile(99.9),
		Max:  h.Max(),
		Mean: h.Mean(),
	}
}

// report sums up a run; used is the growth of the servers' figures. Drive fills in the verdict.
func (r *run) report(elapsed time.Duration, used map[string]float64) *Report {
	c, p := r.tally.counts(), r.plan
	latency, errors := r.tally.merged()
	report := &Report{
		Address:         strings.Join(p.Addresses, ","),
		Protocol:        p.Protocol,
		Policy:          p.Policy,
		Callers:         p.Callers,
		Connections:     r.port.Connections(),
		Keys:            p.Keys,
		KeyPrefix:       p.KeyPrefix,
		Batch:           p.Batch,
		Rate:            p.Rate,
		Seconds:         elapsed.Seconds(),
		Calls:           c.calls,
		Checks:          c.checks(),
		CallsPerSecond:  perSecond(c.calls, elapsed),
		ChecksPerSecond: perSecond(c.checks(), elapsed),
		Latency:         latencyOf(latency),
		Admitted:        c.by[Allowed],
		Denied:          c.by[Denied],
		Failed:          c.by[Failed],
		Unknown:         c.by[Unknown],
		Errors:          errors,
	}
	if o, ok := r.schedule.(*openLoop); ok {
		report.Unsent = o.unsent.Load()
	}
	decided := float64(report.Decided())
	report.ServerCPUMicros = ratio(used["process_cpu_seconds_total"]*1e6, decided)
	report.ClientCPUMicros = ratio(used[clientCPU]*1e6, decided)
	report.ForwardedShare = ratio(used["stint_hop_requests_total"], decided)
	report.MeanFrame = ratio(used["stint_hop_requests_total"], used["stint_hop_frames_total"])
	report.MeanBatch = ratio(used["stint_batch_requests_sum"], used["stint_batch_requests_count"])
	return report
}

// Decided is the number of checks that were answered with a decision.
func (r *Report) Decided() uint64 { return r.Admitted + r.Denied }

func perSecond(n uint64, elapsed time.Duration) float64 { return ratio(float64(n), elapsed.Seconds()) }

// ratio returns 0 if whole is 0.
func ratio(part, whole float64) float64 {
	if whole <= 0 || part < 0 {
		return 0
	}
	return part / whole
}

// cpuSeconds returns the processor time of this process, or 0 if unknown.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
