package redis

import (
	"strconv"
	"strings"

	"github.com/stint-io/stint/shard"
)

// The functions below append one reply, or the head of one. Those with a proto argument write it for that protocol
// version; the others write a form that both versions share.

func appendStatus(b []byte, text string) []byte {
	return append(append(append(b, '+'), text...), '\r', '\n')
}

func appendInteger(b []byte, n int64) []byte {
	return append(strconv.AppendInt(append(b, ':'), n, 10), '\r', '\n')
}

func appendFlag(b []byte, on bool) []byte {
	if on {
		return append(b, ":1\r\n"...)
	}
	return append(b, ":0\r\n"...)
}

func appendBulk[T string | []byte](b []byte, text T) []byte {
	b = appendHead(b, '$', len(text))
	return append(append(b, text...), '\r', '\n')
}

// appendNumber appends a number as text, like a Redis value.
func appendNumber(b []byte, n int64) []byte {
	var digits [20]byte
	return appendBulk(b, strconv.AppendInt(digits[:0], n, 10))
}

func appendArray(b []byte, length int) []byte { return appendHead(b, '*', length) }

// appendMap begins a map; in RESP2 it is an array of names and values.
func appendMap(b []byte, pairs, proto int) []byte {
	if proto < 3 {
		return appendHead(b, '*', 2*pairs)
	}
	return appendHead(b, '%', pairs)
}

func appendNull(b []byte, proto int) []byte {
	if proto < 3 {
		return append(b, "$-1\r\n"...)
	}
	return append(b, "_\r\n"...)
}

func appendHead(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), '\r', '\n')
}

// appendError appends an error, which is one line. Its first word is the code.
func appendError(b []byte, code, text string) []byte {
	b = append(append(append(b, '-'), code...), ' ')
	if strings.ContainsAny(text, "\r\n") {
		text = strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
	}
	return append(append(b, text...), '\r', '\n')
}

// appendFailure appends the reason why there is no decision.
func appendFailure(b []byte, err *shard.Error) []byte {
	code := codeOf(err)
	if code == codeUnknown {
		return appendError(b, code, "the outcome is not known: the command was counted once, or not at all")
	}
	text := err.Message
	if err.Field == "tally.amount" {
		text = overflow
	}
	return appendError(b, code, text)
}

// The codes of errors. Clients treat TRYAGAIN as temporary, and none of the codes as a denial.
const (
	codeWrong    = "ERR"
	codeTryAgain = "TRYAGAIN"
	codeFull     = "OOM"
	codeUnknown  = "UNKNOWN"
)

// Texts of errors, which match those of Redis if it has them.
const (
	notInteger   = "value is not an integer or out of range"
	notCounter   = "value is not an integer or out of range: a key holds a counter, or nothing"
	syntaxError  = "syntax error"
	overflow     = "increment or decrement would overflow"
	decrOverflow = "decrement would overflow"
)

// codeOf returns the code of a request's error. Only what was certainly not counted is TRYAGAIN.
func codeOf(err *shard.Error) string {
	switch {
	case err.MaybeApplied():
		return codeUnknown
	case err.Code == shard.MemoryFull:
		return codeFull
	}
	switch err.Code {
	case shard.NotOwner, shard.Overloaded, shard.Draining, shard.Unavailable, shard.TooLate, shard.SessionGone,
		shard.Outdated:
		return codeTryAgain
	}
	return codeWrong
}

var pongReply, okReply = []byte("+PONG\r\n"), []byte("+OK\r\n")

// plainText makes received bytes safe to show: the first 64, and "?" for all that is not visible ASCII.
func plainText(b []byte) string {
	const shown = 64
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, string(b[:min(len(b), shown)]))
}
