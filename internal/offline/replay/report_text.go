package replay

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteText writes the report as text, with a plot over time.
func (r *Report) WriteText(w io.Writer) error {
	var text bytes.Buffer
	r.writeSummary(&text)
	for i := range r.Policies {
		r.Policies[i].writeText(&text)
	}
	r.writeReading(&text)
	_, err := w.Write(text.Bytes())
	return err
}

// writeReading writes how much of the log was understood, and which parts were not taken literally.
func (r *Log) writeReading(text *bytes.Buffer) {
	fmt.Fprintf(text, "\nLines: %d. Events: %d, of other things: %d, that could not be read: %d.\n", r.Lines, r.Events,
		r.Skipped, r.Unreadable)
	if r.Unreadable > 0 {
		fmt.Fprintf(text, "The first that could not be read: %s\n", r.FirstUnreadable)
	}
	if r.InFuture > 0 {
		fmt.Fprintf(text, "%s in the future: --year says in which year the log begins.\n", eventsLie(r.InFuture))
	}
	if r.OutOfOrder > 0 {
		fmt.Fprintf(text, "%d events were earlier than the one before them and were decided at its time.\n",
			r.OutOfOrder)
	}
}

func eventsLie(events uint64) string {
	if events == 1 {
		return "1 event lies"
	}
	return fmt.Sprintf("%d events lie", events)
}

func (r *Report) writeSummary(text *bytes.Buffer) {
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "POLICY\tEVENTS\tADMITTED\tDENIED\tFIRST DENIAL")
	for _, p := range r.Policies {
		first := "-"
		if p.FirstDenial != nil {
			first = p.FirstDenial.String()
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\n", p.Policy, p.Events, p.Admitted, p.Denied, first)
	}
	table.Flush()
}

func (p *PolicyReport) writeText(text *bytes.Buffer) {
	if p.Events == 0 {
		return
	}
	fmt.Fprintf(text, "\n%s\n\n", p.Policy)
	p.Timeline.plot(text)
	if p.ShadowDenied > 0 {
		fmt.Fprintf(text, "\n  In shadow: %d would have been denied.\n", p.ShadowDenied)
	}
	if p.Denied == 0 {
		return
	}
	if p.Challenged > 0 {
		fmt.Fprintf(text, "\n  Of those denied, %d would have been challenged.\n", p.Challenged)
	}
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\n  LIMIT\tDENIED")
	for _, l := range p.DeniedBy {
		fmt.Fprintf(table, "  %s\t%d\n", l.Limit, l.Denied)
	}
	fmt.Fprintln(table, "\n  KEY\tDENIED")
	for _, k := range p.TopDenied {
		fmt.Fprintf(table, "  %s\t%d\n", k.Key, k.Denied)
	}
	table.Flush()
}
