package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type doctorCommand struct {
	Namespace string        `help:"Where the test key is counted. Default: the server's."`
	Through   string        `help:"A page behind your proxy, on which a gate counts addresses: it is asked twice with a forged X-Forwarded-For." placeholder:"URL"`
	BackupAge time.Duration `help:"The newest backup may be this old." default:"24h"`
	Strict    bool          `help:"Exit code 1 also for what is only worth a look."`
	Wait      time.Duration `help:"How long all of it may take." default:"60s"`
	output
	remote
}

// Help implements kong.HelpProvider.
func (*doctorCommand) Help() string {
	return "Counts on a key of its own through each node, asks each gate with a forged address, and looks at the nodes: is it exact, and " +
		"does anything have to be done before users notice? Each question to a gate is counted for this machine's address. Exit code 0: " +
		"nothing is wrong. 1: something is.\n\n" +
		"    stint doctor --addr node-1:7400,node-2:7400,node-3:7400\n" +
		"    stint doctor --through https://shop.example.com/login\n" +
		"    stint doctor -o json\n\n" +
		"A token for it: --grant 'ops=observe,sinks' --grant 'ops=check,read,inline'"
}

// condition is how bad a finding is.
type condition string

const (
	isFine    condition = "ok"
	isUnknown condition = "unknown" // it could not be looked at
	isSuspect condition = "warn"    // it works, and may not go on so
	isWrong   condition = "wrong"
)

// finding is what a check of the doctor has found.
type finding struct {
	Check string    `json:"check"`
	State condition `json:"state"`
	Found string    `json:"found"`
	Do    string    `json:"do,omitempty"` // what to do about it
}

// doctor looks at a cluster.
type doctor struct {
	*doctorCommand
	nodes    []site // to be asked; never empty
	findings []finding
}

// site is a node that can be asked.
type site struct{ name, url string }

func (d *doctor) add(check string, state condition, found, do string) {
	d.findings = append(d.findings, finding{check, state, found, do})
}

// fine notes that a check found nothing wrong.
func (d *doctor) fine(check, format string, args ...any) {
	d.add(check, isFine, fmt.Sprintf(format, args...), "")
}

// unknown notes that a check could not be made.
func (d *doctor) unknown(check string, err error, do string) {
	d.add(check, isUnknown, err.Error(), do)
}

// Run looks at the cluster, and returns an error if something is wrong.
func (c *doctorCommand) Run(s streams) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.Wait)
	defer cancel()
	status, err := c.status("doctor")
	if err != nil {
		return err
	}
	d := &doctor{doctorCommand: c}
	d.find(status)
	if status.Partial {
		d.unknown("cluster", errors.New("this token or role may not see the state of the cluster"), "give it the operation observe")
	} else {
		d.cluster(status, time.Now())
	}
	d.identity(ctx)
	d.count(ctx)
	d.gates(ctx)
	d.sinksOf(ctx)
	if err := d.print(s); err != nil {
		return err
	}
	wrong := 0
	for _, f := range d.findings {
		if f.State == isWrong || c.Strict && f.State != isFine {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("doctor: not well: %s", plural(wrong, "finding"))
	}
	return nil
}

// find notes which nodes can be asked: those of --addr if there are several, else all that the cluster says answer.
func (d *doctor) find(status *stintv1.StatusResponse) {
	urls := d.urls()
	if d.DataDir != "" {
		urls = nil
	}
	if len(urls) > 1 {
		for _, url := range urls {
			d.nodes = append(d.nodes, site{url, url})
		}
		return
	}
	scheme, _, _ := strings.Cut(d.urls()[0], "://")
	for _, n := range status.Nodes {
		if n.Alive && n.ApiAddr != "" && n.State != "removed" {
			d.nodes = append(d.nodes, site{n.Id, scheme + "://" + n.ApiAddr})
		}
	}
	if len(d.nodes) < 2 && len(urls) == 1 { // one node is asked as it was named
		d.nodes = []site{{urls[0], urls[0]}}
	}
}

// at returns the flags to ask one node with.
func (d *doctor) at(n site) remote {
	r := d.remote
	if d.DataDir == "" || len(d.nodes) > 1 { // a lone node is asked at its socket
		r.Addr, r.DataDir = n.url, ""
	}
	return r
}

// decide makes one check through a node.
func (d *doctor) decide(ctx context.Context, n site, m *stintv1.CheckRequest) (*stintv1.Decision, error) {
	asking, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	answer, err := d.at(n).limits(asking).Check(asking, connect.NewRequest(m))
	if err != nil {
		return nil, err
	}
	return answer.Msg.GetDecision(), nil
}

// print writes the findings.
func (d *doctor) print(s streams) error {
	if d.json() {
		return json.NewEncoder(raw(s.out)).Encode(map[string]any{"findings": d.findings})
	}
	width := len("CHECK")
	for _, f := range d.findings {
		width = max(width, len(f.Check))
	}
	fmt.Fprintf(s.out, "%-*s  %-7s  FOUND\n", width, "CHECK", "STATE")
	for _, f := range d.findings {
		fmt.Fprintf(s.out, "%-*s  %-7s  %s\n", width, f.Check, f.State, f.Found)
		if f.Do != "" {
			fmt.Fprintf(s.out, "%-*s  -> %s\n", width+9, "", f.Do)
		}
	}
	return nil
}
