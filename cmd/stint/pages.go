package main

import "fmt"

// pageMost is the longest page that a server sends.
const pageMost = 1000

// pages calls next until the list has count rows (0: all) or is complete. next adds a page of at most size rows to the
// list, and reports whether the server has more, and how many rows the list has now, not only the page.
func pages(command string, count int, next func(size uint32) (more bool, rows int, err error)) error {
	if count < 0 {
		return usagef("%s: --count: is %d", command, count)
	}
	for more, rows := true, 0; more && (count == 0 || rows < count); {
		size, err := uint32(pageMost), error(nil)
		if count > 0 {
			size = uint32(min(count-rows, pageMost))
		}
		if more, rows, err = next(size); err != nil {
			return err
		}
	}
	return nil
}

// tellMore prints how to continue an incomplete list.
func (s streams) tellMore(cursor string) {
	if cursor != "" {
		fmt.Fprintf(s.err, "stint: there are more: --cursor %s\n", cursor)
	}
}
