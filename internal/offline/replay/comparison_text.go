package replay

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText writes the comparison as text.
func (c *Comparison) WriteText(w io.Writer) error {
	var text bytes.Buffer
	c.writeTotals(&text)
	if len(c.Added) > 0 {
		fmt.Fprintf(&text, "\nOnly in the new file, and not compared: %s\n", strings.Join(c.Added, ", "))
	}
	if len(c.Removed) > 0 {
		fmt.Fprintf(&text, "\nOnly in the old file, and not compared: %s\n", strings.Join(c.Removed, ", "))
	}
	var denied, admitted uint64
	for _, p := range c.Policies {
		denied, admitted = denied+p.NewlyDeniedKeys, admitted+p.NewlyAdmittedKeys
	}
	writeKeys(&text, "NEWLY DENIED", c.TopNewlyDenied, denied, func(k *KeyComparison) (uint64, *Moment) {
		return k.NewlyDenied, k.FirstNewlyDenied
	})
	writeKeys(&text, "NEWLY ADMITTED", c.TopNewlyAdmitted, admitted, func(k *KeyComparison) (uint64, *Moment) {
		return k.NewlyAdmitted, k.FirstNewlyAdmitted
	})
	c.writeReading(&text)
	_, err := w.Write(text.Bytes())
	return err
}

func (c *Comparison) writeTotals(text *bytes.Buffer) {
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "POLICY\tEVENTS\tDENIED BEFORE\tDENIED AFTER\tNEWLY DENIED\tNEWLY ADMITTED")
	for _, p := range c.Policies {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\t%s\n", p.Policy, p.Events, p.DeniedBefore, p.DeniedAfter,
			ofKeys(p.NewlyDenied, p.NewlyDeniedKeys), ofKeys(p.NewlyAdmitted, p.NewlyAdmittedKeys))
	}
	table.Flush()
}

// ofKeys formats a number of events with the number of their keys.
func ofKeys(events, keys uint64) string {
	switch keys {
	case 0:
		return "0"
	case 1:
		return fmt.Sprintf("%d (1 key)", events)
	}
	return fmt.Sprintf("%d (%d keys)", events, keys)
}

// writeKeys lists the most changed keys of one direction; all is the number of keys that changed.
func writeKeys(
	text *bytes.Buffer, way string, keys []KeyComparison, all uint64, changed func(*KeyComparison) (uint64, *Moment),
) {
	if len(keys) == 0 {
		return
	}
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\nPOLICY\tKEY\tEVENTS\tDENIED BEFORE\tDENIED AFTER\t%s\tFIRST\n", way)
	for i := range keys {
		k := &keys[i]
		events, first := changed(k)
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", k.Policy, k.Key, k.Events, k.DeniedBefore, k.DeniedAfter,
			events, first)
	}
	table.Flush()
	if more := all - uint64(len(keys)); more > 0 {
		fmt.Fprintf(text, "and %d more\n", more)
	}
}
