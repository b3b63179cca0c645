package redis

import (
	"bytes"
	"slices"
	"strconv"
)

// Bounds on commands.
const (
	commandBytesMax = 64 << 10
	argumentsMax    = 1024
)

// protocolError ends a connection: the start of the next command is unknown.
type protocolError string

// Error implements error.
func (e protocolError) Error() string { return "Protocol error: " + string(e) }

const (
	errLineTooLong   = protocolError("a command may have 65536 bytes")
	errArgumentCount = protocolError("invalid multibulk length: a command may have 1024 arguments")
	errBulkLength    = protocolError("invalid bulk length: a command may have 65536 bytes")
	errNoBulk        = protocolError("expected '$', for a command is an array of bulk strings")
	errNoLineEnd     = protocolError("expected the end of the bulk string")
	errQuotes        = protocolError("quotes are not understood in inline commands")
	errHTTP          = protocolError("this is HTTP, and this port speaks the Redis protocol; none of it was done")
	errTLS           = protocolError("this is TLS, and this port speaks the Redis protocol in the clear; " +
		"nothing was done")
)

// parse reads the first command of b, which is n bytes long. Its arguments are slices of b, appended to args. n is 0
// while the command is incomplete. An empty line and an empty array have no arguments.
func parse(b []byte, args [][]byte) (_ [][]byte, n int, err error) {
	if len(b) == 0 {
		return args, 0, nil
	}
	if b[0] != '*' {
		return parseInline(b, args)
	}
	count, n, err := parseLength(b, argumentsMax, errArgumentCount)
	if n == 0 || err != nil {
		return args, 0, err
	}
	for range count {
		rest := b[n:]
		if len(rest) == 0 {
			return args, 0, tooLong(b)
		}
		if rest[0] != '$' {
			return args, 0, errNoBulk
		}
		size, head, err := parseLength(rest, commandBytesMax, errBulkLength)
		if err != nil || size < 0 {
			return args, 0, errBulkLength
		}
		end := head + size
		if n+end+2 > commandBytesMax {
			return args, 0, errBulkLength
		}
		if head == 0 || len(rest) < end+2 {
			return args, 0, tooLong(b)
		}
		if rest[end] != '\r' || rest[end+1] != '\n' {
			return args, 0, errNoLineEnd
		}
		args = append(args, rest[head:end:end])
		n += end + 2
	}
	return args, n, nil
}

// tooLong returns the error of an incomplete command that already has as many bytes as a command may have.
func tooLong(b []byte) error {
	if len(b) >= commandBytesMax {
		return errLineTooLong
	}
	return nil
}

// parseLength reads the number after the first byte of b, up to the end of the line; n is 0 while the line is
// incomplete. A length may be negative: that of an array means no arguments, and that of an argument is wrong.
func parseLength(b []byte, most int, wrong protocolError) (length, n int, err error) {
	const digitsMax = 12
	i, sign := 1, 1
	if len(b) > 1 && b[1] == '-' {
		i, sign = 2, -1
	}
	begin := i
	for ; i < len(b) && b[i] != '\r'; i++ {
		if b[i] < '0' || b[i] > '9' || i-begin >= digitsMax {
			return 0, 0, wrong
		}
		length = length*10 + int(b[i]-'0')
	}
	if i+1 >= len(b) {
		return 0, 0, nil
	}
	if i == begin || b[i+1] != '\n' || length > most {
		return 0, 0, wrong
	}
	return sign * length, i + 2, nil
}

// tlsHandshake is the first byte of a TLS hello. The client chooses the bytes after it, which may look like commands.
const tlsHandshake = 0x16

// parseInline reads a line of words, as a person types it.
func parseInline(b []byte, args [][]byte) (_ [][]byte, n int, err error) {
	if b[0] == tlsHandshake {
		return args, 0, errTLS
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 || end >= commandBytesMax {
		return args, 0, tooLong(b)
	}
	line := b[:end]
	if bytes.ContainsAny(line, `"'`) {
		return args, 0, errQuotes
	}
	for word := range bytes.FieldsFuncSeq(line, isBlank) {
		if len(args) == argumentsMax {
			return args, 0, errArgumentCount
		}
		args = append(args, word)
	}
	if isHTTP(args) {
		return args, 0, errHTTP
	}
	return args, end + 1, nil
}

// isHTTP reports whether a line is part of a web browser's request: a request line or a header. A web page can post to
// this port, and each line of the posted text would be a command; Redis refuses POST and Host: for that reason. GET
// alone is a command of both protocols. A path would be a key here; such a key can still be sent in an array.
func isHTTP(words [][]byte) bool {
	if len(words) == 0 {
		return false
	}
	first, last := words[0], words[len(words)-1]
	switch {
	case bytes.IndexByte(first, ':') >= 0: // a header: no command has a colon
		return true
	case is(first, "POST"), len(words) > 2 && len(last) > 5 && is(last[:5], "HTTP/"):
		return true
	case len(words) < 2 || !isMethod(first):
		return false
	}
	target := words[1]
	return target[0] == '/' || len(target) > 4 && is(target[:4], "HTTP")
}

var httpMethods = []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PRI"}

func isMethod(word []byte) bool {
	return slices.ContainsFunc(httpMethods, func(method string) bool { return is(word, method) })
}

func isBlank(c rune) bool { return c == ' ' || c == '\t' || c == '\r' }

// parseInteger reads a signed 64-bit number in Redis's form: no blanks, no plus, no leading zeros.
func parseInteger(b []byte) (value int64, ok bool) {
	const bytesMax = 20
	if len(b) > bytesMax {
		return 0, false
	}
	value, err := strconv.ParseInt(string(b), 10, 64)
	var form [bytesMax]byte
	return value, err == nil && bytes.Equal(strconv.AppendInt(form[:0], value, 10), b)
}
