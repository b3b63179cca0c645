package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/stint-io/stint/internal/offline/verify"
)

// printVerified writes the result of a verification as text.
func printVerified(s streams, r *verify.Result) {
	table := newTable(s)
	fmt.Fprintf(table, "limit\t%d\tof each key: %d keys contended for, %d filled\n", r.Limit, r.Keys, r.KeysFull)
	fmt.Fprintf(table, "admitted\t%d\tto the key with the most; %d to all, %d denied, %d of them repeated\n",
		r.Admitted, r.AdmittedAll, r.Denied, r.Repeated)
	fmt.Fprintf(table, "lost\t%d\tadmissions that were answered and are not counted\n", r.Lost)
	fmt.Fprintf(table, "doubled\t%d\tunits counted twice\n", r.Doubled)
	fmt.Fprintf(table, "unknown\t%d\toutcomes that stay unknown; %d more were told by their ids; %d ids replayed\n",
		r.Unknown, r.Resolved, r.Replayed)
	fmt.Fprintf(table, "unavailable\t%s\tthe worst of %d outages of a shard; p50 %s, p99 %s\n",
		millis(r.Unavailable.Worst), r.Unavailable.Count, millis(r.Unavailable.P50), millis(r.Unavailable.P99))
	fmt.Fprintf(table, "latency\t%s\tp99; p50 %s, worst %s; %.0f operations/s, %d missed their deadline\n",
		millis(r.Latency.P99), millis(r.Latency.P50), millis(r.Latency.Worst), r.Rate, r.Missed)
	if r.Leased > 0 {
		fmt.Fprintf(table, "leased\t%d\tmore admissions, from leases, which no other line counts\n", r.Leased)
	}
	if len(r.Faults) > 0 {
		total, kinds := 0, []string{}
		for _, fault := range slices.Sorted(maps.Keys(r.Faults)) {
			total += r.Faults[fault]
			kinds = append(kinds, fmt.Sprintf("%s %d", fault, r.Faults[fault]))
		}
		fmt.Fprintf(table, "faults\t%d\t%s; in %.0f s, seed %d\n", total, strings.Join(kinds, ", "), r.Seconds, r.Seed)
	}
	if r.SlotsMoved > 0 {
		fmt.Fprintf(table, "moved\t%d\tslots, to other shards and back\n", r.SlotsMoved)
	}
	table.Flush()
	for _, code := range slices.Sorted(maps.Keys(r.Trouble)) {
		t := r.Trouble[code]
		fmt.Fprintf(s.out, "%d attempts ended with %s: %s\n", t.Attempts, code, t.Example)
	}
	printVerdict(s.out, r)
}

func printVerdict(out io.Writer, r *verify.Result) {
	if r.Exact {
		fmt.Fprintf(out, "\nexact: limit %d, admitted %d, lost %d, doubled %d\n",
			r.Limit, r.Admitted, r.Lost, r.Doubled)
		return
	}
	fmt.Fprintln(out, "\nNOT EXACT:")
	for _, kind := range slices.Sorted(maps.Keys(r.Findings)) {
		fmt.Fprintf(out, "  %s: %d\n", kind, r.Findings[kind])
	}
	for _, text := range r.Evidence {
		fmt.Fprintf(out, "    %s\n", text)
	}
}
