package api

import (
	"context"
	"net"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stint-io/stint/shard"
)

// actorHeader is the header in which a caller says who asks, for the audit log.
const actorHeader = "Stint-Actor"

// actor is who asks, as far as is known: what the header says, which nobody verifies, else where the call came from.
func actor(ctx context.Context) (string, error) {
	return exchangeOf(ctx).actor()
}

func (x *exchange) actor() (string, error) {
	named := x.header.Get(actorHeader)
	if named == "" {
		if host, _, err := net.SplitHostPort(x.remote); err == nil {
			return host, nil
		}
		return x.remote, nil
	}
	if problem := lengthProblem(named, shard.MaxActor); problem != "" {
		return "", shard.Invalidf("stint-actor", "%s", problem)
	}
	if !utf8.ValidString(named) || strings.ContainsFunc(named, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", shard.Invalidf("stint-actor", "must be printable text")
	}
	return named, nil
}
