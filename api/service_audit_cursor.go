package api

import (
	"fmt"
	"slices"

	"github.com/stint-io/stint/shard"
)

// auditCursor is a position in the list of changes, newest first. One entry of a log may hold several changes, which
// are equal in the order of the list: met is how many of them precede the position. The zero value is the position
// before the newest change.
type auditCursor struct {
	at  shard.AuditRecord // only its time and position
	met int
}

// older sorts the changes of some shards, in place, and returns those after the cursor. All changes that are equal in
// the order are of one shard, and must be in one call.
func (c *auditCursor) older(records []shard.AuditRecord) []shard.AuditRecord {
	slices.SortStableFunc(records, newerFirst)
	if c.met == 0 {
		return records
	}
	met := c.met
	return slices.DeleteFunc(records, func(r shard.AuditRecord) bool {
		order := newerFirst(r, c.at)
		if order == 0 {
			met--
		}
		return order < 0 || order == 0 && met >= 0
	})
}

// behind returns the cursor after a page that begins at c and is not empty.
func (c *auditCursor) behind(page []shard.AuditRecord) auditCursor {
	last := page[len(page)-1]
	next := auditCursor{at: shard.AuditRecord{At: last.At, Position: last.Position}}
	for i := range page {
		if newerFirst(page[i], last) == 0 {
			next.met++
		}
	}
	if c.met > 0 && newerFirst(c.at, last) == 0 {
		next.met += c.met
	}
	return next
}

// String returns the cursor in the form given to clients.
func (c auditCursor) String() string {
	p := c.at.Position
	return fmt.Sprintf("%d.%d.%d.%d.%d", c.at.At, p.Shard, p.Epoch, p.Seq, c.met)
}

// parseAuditCursor reads the output of String; "" is the beginning.
func parseAuditCursor(text string) (c auditCursor, err error) {
	if text == "" {
		return c, nil
	}
	p := &c.at.Position
	_, err = fmt.Sscanf(text, "%d.%d.%d.%d.%d", &c.at.At, (*uint32)(&p.Shard), &p.Epoch, &p.Seq, &c.met)
	if err != nil || c.met < 1 || c.String() != text {
		return c, shard.Invalidf("cursor", "is none that an answer had as its next_cursor")
	}
	return c, nil
}
