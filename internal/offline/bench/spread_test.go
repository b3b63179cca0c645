package bench

import (
	"strings"
	"testing"
)

// The callers spread over the nodes of one cluster, and the audit counts the admissions of all of them.
func TestCallersSpreadOverTheAddresses(t *testing.T) {
	for _, protocol := range []Protocol{JSON, Connect, GRPC, Stream} {
		fake := newFake(100)
		p := countPlan(fake.start(t), protocol)
		p.Addresses = append(p.Addresses, fake.start(t), fake.start(t))
		report := mustRun(t, p)
		if !report.Verdict.Exact || report.Admitted != 100 || report.Address != strings.Join(p.Addresses, ",") {
			t.Errorf("%s: %+v", protocol, report)
		}
		asked := map[string]int{}
		for host, calls := range fake.calledAt() {
			asked[host] = calls
		}
		if len(asked) != 3 {
			t.Errorf("%s: calls came to %v, want all three addresses", protocol, asked)
		}
	}
}

// Two of three addresses refuse: calls that were not sent there go to the next one, and nothing fails.
func TestARefusedConnectionGoesToTheNextAddress(t *testing.T) {
	for _, protocol := range []Protocol{JSON, Connect, GRPC, Stream, Client} {
		fake := newFake(100)
		p := countPlan(fake.start(t), protocol)
		p.Addresses = []string{"http://127.0.0.1:1", p.Addresses[0], "http://127.0.0.1:2"}
		if report := mustRun(t, p); !report.Verdict.Exact || report.Failed+report.Unknown != 0 {
			t.Errorf("%s: %+v, errors %+v", protocol, report, report.Errors["connection"])
		}
	}
}

func TestMetricsAreSummedOverLabelsAndNodes(t *testing.T) {
	text := "# HELP stint_x words 7\nstint_x_sum{shard=\"0\"} 10\nstint_x_sum{shard=\"1\"} 2.5e1\nstint_xy 4\nodd\n"
	sums := map[string]float64{}
	readMetrics(strings.NewReader(text), sums)
	readMetrics(strings.NewReader(text), sums)
	if sums["stint_x_sum"] != 70 || sums["stint_xy"] != 8 || len(sums) != 2 {
		t.Error(sums)
	}
}
