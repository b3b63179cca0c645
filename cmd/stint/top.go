package main

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type topCommand struct {
	Policies  []string      `arg:"" optional:"" name:"policy" help:"Only these policies. Limits that came with requests are under \"inline\"."`
	Namespace string        `help:"Default: the server's."`
	By        string        `help:"What makes a key stand out: decisions, denials, or units, which are those that were admitted." enum:"decisions,denials,units" default:"decisions"`
	Count     uint32        `short:"n" help:"How many keys of each policy, at most 32." default:"10"`
	Window    time.Duration `help:"How far back: 1m, 10m or 1h." default:"1m"`
	Every     time.Duration `help:"Ask again after this long." default:"2s"`
	Once      bool          `help:"Print one table, as where the output is no terminal."`
	asking
}

// everyMin keeps a screen from loading the cluster.
const everyMin = 200 * time.Millisecond

// Run prints the busiest keys, once or until it is interrupted.
func (c *topCommand) Run(s streams) error {
	if c.Every < everyMin {
		return usagef("--every is %v: it must be at least %v", c.Every, everyMin)
	}
	screen := terminal(s.out)
	if c.Once || c.json() || screen == nil {
		answer, err := c.ask()
		return show(s, c.output, answer, err, c.print)
	}
	for {
		answer, err := c.ask()
		var text bytes.Buffer
		shown := printable{&text}
		if err != nil {
			fmt.Fprintf(shown, "%v\n", err) // the next answer may succeed
		} else {
			c.print(streams{out: shown}, answer)
		}
		_, rows, err := term.GetSize(int(screen.Fd()))
		if err != nil {
			rows = 24
		}
		if err := redraw(screen, text.String(), rows); err != nil {
			return err
		}
		time.Sleep(c.Every)
	}
}

// redraw writes a text over the screen without flicker: each line is overwritten and its rest erased.
func redraw(w io.Writer, text string, rows int) error {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > rows-1 {
		lines = append(lines[:max(0, rows-2)], "...")
	}
	const home, eraseLine, eraseBelow = "\x1b[H", "\x1b[K", "\x1b[J"
	_, err := io.WriteString(w, home+strings.Join(lines, eraseLine+"\r\n")+eraseLine+"\r\n"+eraseBelow)
	return err
}

// ask asks the server once.
func (c *topCommand) ask() (*stintv1.TopResponse, error) {
	order := stintv1.TopOrder(stintv1.TopOrder_value["TOP_ORDER_"+strings.ToUpper(c.By)])
	return ask(c.remote, "top", "", c.observe().Top,
		&stintv1.TopRequest{Namespace: c.Namespace, Policies: c.Policies, Order: order, Count: c.Count,
			Window: durationpb.New(c.Window)})
}

// print writes a table for each policy.
func (c *topCommand) print(s streams, m *stintv1.TopResponse) {
	fmt.Fprintf(s.out, "keys by %s, the last %v\n", c.By, c.Window)
	if len(m.Policies) == 0 && len(m.Keys) == 0 {
		fmt.Fprintln(s.out, "\nnone: nothing was decided, or nothing that you may see")
	}
	policies := make(map[string]*stintv1.TopPolicy)
	for _, p := range m.Policies {
		policies[p.Policy] = p
	}
	for from := 0; from < len(m.Keys); {
		name, to := m.Keys[from].Policy, from
		for to < len(m.Keys) && m.Keys[to].Policy == name {
			to++
		}
		fmt.Fprintf(s.out, "\n%s\n", topTitle(name, policies[name]))
		delete(policies, name)
		printTable(s, "  KEY\tDECISIONS\tDENIED\tUNITS", m.Keys[from:to], func(k *stintv1.TopKey) []any {
			key := "  " + k.Key
			if k.Hashed {
				key = "  #" + k.Key
			}
			return []any{key, estimate(k.Decisions, k.DecisionsError), estimate(k.Denials, k.DenialsError),
				estimate(k.Units, k.UnitsError)}
		})
		from = to
	}
	for _, p := range m.Policies {
		if policies[p.Policy] != nil { // none of its keys is listed in this order
			fmt.Fprintf(s.out, "\n%s\n", topTitle(p.Policy, p))
		}
	}
	if len(m.MissingNodes) > 0 {
		fmt.Fprintf(s.out, "\nmissing is what these nodes know, which did not answer: %s\n",
			strings.Join(m.MissingNodes, ", "))
	}
	if m.Cut {
		fmt.Fprintln(s.out, "\nthere are more policies than fit into an answer: name some of them")
	}
}

// topTitle describes all keys of a policy together; p may be nil.
func topTitle(name string, p *stintv1.TopPolicy) string {
	if p == nil {
		return name
	}
	denied := ""
	if p.Denials > 0 && p.Decisions >= p.Denials {
		denied = fmt.Sprintf(" (%.1f %%)", 100*float64(p.Denials)/float64(p.Decisions))
	}
	return fmt.Sprintf("%s: %s, %d denied%s, %s admitted, since %s", name, plural(p.Decisions, "decision"), p.Denials,
		denied, plural(p.Units, "unit"), p.Since.AsTime().UTC().Format("15:04:05Z"))
}

// estimate formats a count with its lower bound, if that is less.
func estimate(count, err uint64) string {
	if err == 0 || err > count {
		return strconv.FormatUint(count, 10)
	}
	return fmt.Sprintf("%d..%d", count-err, count)
}
