package replay

import (
	"encoding/csv"
	"strconv"
	"strings"

	"github.com/stint-io/stint/limit"
)

// columns is the position of each field in a line, or -1 if absent. Each line must have count columns, as the header
// has.
type columns struct{ time, key, cost, count int }

func parseHeader(line string) (columns, error) {
	c := columns{time: -1, key: -1, cost: -1}
	fields, err := splitCSV(line)
	if err != nil {
		return c, err
	}
	for i, name := range fields {
		var column *int
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "time":
			column = &c.time
		case "key":
			column = &c.key
		case "cost":
			column = &c.cost
		default:
			return c, lineErrorf("the header has the column %.60q: known are time, key and cost", name)
		}
		if *column >= 0 {
			return c, lineErrorf("the header has the column %q twice", name)
		}
		*column = i
	}
	if c.time < 0 || c.key < 0 {
		return c, lineErrorf("the header must have the columns time and key")
	}
	c.count = len(fields)
	return c, nil
}

func (c columns) parse(line string) (Event, int, error) {
	if line == "" {
		return Event{}, 0, nil
	}
	fields, err := splitCSV(line)
	if err != nil {
		return Event{}, 0, err
	}
	if len(fields) != c.count {
		return Event{}, 0, lineErrorf("has %d columns: the header has %d", len(fields), c.count)
	}
	event := Event{Key: fields[c.key], Cost: 1}
	if event.At, err = parseTime(strings.TrimSpace(fields[c.time])); err != nil {
		return Event{}, 0, err
	}
	if c.cost >= 0 && fields[c.cost] != "" {
		if event.Cost, err = parseCost(strings.TrimSpace(fields[c.cost])); err != nil {
			return Event{}, 0, err
		}
	}
	return event, 1, nil
}

// splitCSV splits one line. An event contains no line breaks, so a quoted field ends within the line.
func splitCSV(line string) ([]string, error) {
	if !strings.Contains(line, `"`) {
		return strings.Split(line, ","), nil
	}
	fields, err := csv.NewReader(strings.NewReader(line)).Read()
	if err != nil {
		return nil, lineErrorf(`the quotes are wrong: a quoted field begins and ends with one,` +
			` and "" stands for one inside`)
	}
	return fields, nil
}

func parseCost(text string) (uint64, error) {
	cost, err := strconv.ParseUint(text, 10, 64)
	if err != nil || cost == 0 || cost > limit.MaxCost {
		return 0, lineErrorf("cost: must be a whole number from 1 to %d, not %q", uint64(limit.MaxCost), text)
	}
	return cost, nil
}
