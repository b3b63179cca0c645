package bench

import (
	"strings"
	"time"
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

// ErrorCount is the number of failed checks with one code, and the text of the first.
type ErrorCount struct {
	Checks  uint64 `json:"checks"`
	Example string `json:"example"`
}

// report sums up a run; used is the growth of the servers' figures. Drive fills in the verdict.
func (r *run) report(elapsed time.Duration, used map[string]float64) *Report {
	c, p := r.stats.counts(), r.plan
	latency, errors := r.stats.merged()
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
