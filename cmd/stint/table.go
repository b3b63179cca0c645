package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// table aligns cells that end with tabs. They are made printable before they are measured.
type table struct {
	printable
	Flush func()
}

func newTable(s streams) table {
	t := tabwriter.NewWriter(raw(s.out), 0, 0, 2, ' ', 0)
	return table{printable{t}, func() { t.Flush() }} // the output remembers the error
}

// printTable writes a table: its head, and a row of cells for each item. A column without a head is left out; the cells
// behind the last column are notes.
func printTable[T any](s streams, head string, items []T, row func(T) []any) {
	table := newTable(s)
	columns := strings.Split(head, "\t")
	isEmpty := func(cell string) bool { return cell == "" }
	fmt.Fprintln(table, strings.Join(slices.DeleteFunc(slices.Clone(columns), isEmpty), "\t"))
	for _, item := range items {
		var cells []string
		for i, cell := range row(item) {
			if i >= len(columns) || columns[i] != "" {
				cells = append(cells, fmt.Sprint(cell))
			}
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	table.Flush()
}

// headIf is the head of a column that is there if any row needs it; so far is that of the rows before.
func headIf(needed bool, head, soFar string) string {
	if needed {
		return head
	}
	return soFar
}
