package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// usageCommand has the commands about bills.
type usageCommand struct {
	List    usageListCommand    `cmd:"" default:"withargs" help:"List what the meters of the policies have billed."`
	Correct usageCorrectCommand `cmd:"" help:"Correct the bill of one key by hand."`
}

type usageListCommand struct {
	Period    string `help:"Only periods that start in it, in the meter's time zone: 2026, 2026-10 or 2026-10-31. Default: all that are kept." placeholder:"PERIOD"`
	Namespace string `help:"Default: the server's."`
	Policy    string `help:"Only this policy." placeholder:"NAME"`
	Key       string `help:"Only this key."`
	Output    string `short:"o" help:"table for people; csv, or json with one object a line, for programs." enum:"table,csv,json" default:"table"`
	remote
}

// usageColumns are the names of the columns of -o csv.
var usageColumns = []string{"id", "namespace", "policy", "meter", "key", "start", "end", "state", "units", "credits",
	"corrections",
	"revision", "recovered"}

// Run lists usage, page by page, as it comes.
func (c *usageListCommand) Run(s streams) error {
	write, flush := c.writer(s)
	request := &stintv1.ListUsageRequest{Namespace: c.Namespace, Policy: c.Policy, Key: c.Key, Period: c.Period}
	changing, unreadable := 0, 0
	for {
		page, err := ask(c.remote, "usage", "", c.observe().ListUsage, request)
		if err != nil {
			return err
		}
		for _, r := range page.Records {
			if r.State != stintv1.UsageState_USAGE_STATE_FINAL {
				changing++
			}
			write(r)
		}
		for _, u := range page.Unreadable {
			unreadable++
			fmt.Fprintf(s.err, "the bill of key %q under policy %q cannot be read and is missing here\n",
				u.Key, u.Policy)
		}
		if request.PageToken = page.NextPageToken; request.PageToken == "" {
			flush()
		}
		if err := s.failed(); err != nil {
			return err
		}
		if request.PageToken == "" {
			c.end(s.err, page.CompleteThrough, changing)
			if unreadable == 0 {
				return nil
			}
			return fmt.Errorf("%d bills cannot be read by the nodes that have them: the others are listed; "+
				"see the logs, and report it", unreadable)
		}
	}
}

// writer returns a function that writes a record, and one for the end.
func (c *usageListCommand) writer(s streams) (write func(*stintv1.UsageRecord), flush func()) {
	switch c.Output {
	case "json":
		return func(r *stintv1.UsageRecord) { printJSON(s, r) }, func() {} // what was parsed can be written
	case "csv":
		file := csv.NewWriter(raw(s.out))
		file.Write(usageColumns)
		return func(r *stintv1.UsageRecord) { file.Write(usageFields(r)) }, file.Flush
	}
	return usageTable(s)
}

// usageTable returns a function that adds a record to a table, and one that prints the table.
func usageTable(s streams) (write func(*stintv1.UsageRecord), flush func()) {
	table := newTable(s)
	fmt.Fprintln(table, "POLICY\tMETER\tKEY\tPERIOD\tSTATE\tUNITS\tCREDITS\tCORRECTIONS\tOWED")
	return func(r *stintv1.UsageRecord) {
		state := periodState(r.State)
		if r.Recovered {
			state += ", recovered"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\n",
			r.Policy, r.Meter, r.Key, periodText(r), state, r.Units, r.Credits, r.Corrections,
			int64(r.Units)-int64(r.Credits)+r.Corrections)
	}, table.Flush
}

// periodText formats a period in the meter's zone: 2026, 2026-10, 2026-10-31, or its start if it is none of these.
// --period accepts it.
func periodText(r *stintv1.UsageRecord) string {
	zone, err := time.LoadLocation(r.TimeZone) // "" means UTC
	if err != nil {
		return instant(r.Start)
	}
	start, end := r.Start.AsTime().In(zone), r.End.AsTime().In(zone)
	for _, unit := range []struct {
		layout              string
		years, months, days int
	}{{"2006", 1, 0, 0}, {"2006-01", 0, 1, 0}, {time.DateOnly, 0, 0, 1}} {
		text := start.Format(unit.layout)
		if first, err := time.ParseInLocation(unit.layout, text, zone); err == nil && first.Equal(start) &&
			start.AddDate(unit.years, unit.months, unit.days).Equal(end) {
			return text
		}
	}
	return start.Format(time.RFC3339)
}

// usageFields returns a record in the order of usageColumns.
func usageFields(r *stintv1.UsageRecord) []string {
	return []string{r.Id, r.Namespace, r.Policy, r.Meter, inertCell(r.Key), instant(r.Start), instant(r.End),
		periodState(r.State), fmt.Sprint(r.Units), fmt.Sprint(r.Credits), fmt.Sprint(r.Corrections),
		fmt.Sprint(r.Revision), fmt.Sprint(r.Recovered)}
}

// inertCell returns a text that no spreadsheet takes for a formula: clients may choose their keys.
func inertCell(text string) string {
	if strings.IndexAny(text, "=+-@\t\r") == 0 {
		return "'" + text
	}
	return text
}

// periodState returns open, closed or final.
func periodState(s stintv1.UsageState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "USAGE_STATE_"))
}

// end reports how complete the list is. It goes to stderr, so that stdout is only records.
func (c *usageListCommand) end(w io.Writer, through *timestamppb.Timestamp, changing int) {
	text := "complete through " + instant(through)
	if changing > 0 {
		text += "; " + plural(changing, "period") + " may still change"
	}
	fmt.Fprintln(w, text)
}
