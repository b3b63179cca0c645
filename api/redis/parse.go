package redis

import "bytes"

// Bounds on what arrives.
const (
	commandBytesMax = 64 << 10
	argumentsMax    = 1024
)

// protocolError is the end of a connection: where the next command begins cannot be told any more.
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
)

// parse takes the first command from b: its arguments, appended to args, are parts of b, and it has n bytes. n is 0 while the
// command is incomplete. An empty line and an empty array have no arguments.
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

// tooLong is the error of an incomplete command that has as many bytes as a command may.
func tooLong(b []byte) error {
	if len(b) >= commandBytesMax {
		return errLineTooLong
	}
	return nil
}

// parseLength reads the number behind the first byte of b, to the end of the line; n is 0 while there is no end.
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

// parseInline reads a line of words, as somebody types it.
func parseInline(b []byte, args [][]byte) (_ [][]byte, n int, err error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 || end >= commandBytesMax {
		return args, 0, tooLong(b)
	}
	line := b[:end]
	if bytes.ContainsAny(line, `"'`) {
		return args, 0, errQuotes
	}
	for i := 0; i < len(line); {
		if isBlank(line[i]) {
			i++
			continue
		}
		from := i
		for i < len(line) && !isBlank(line[i]) {
			i++
		}
		if len(args) == argumentsMax {
			return args, 0, errArgumentCount
		}
		args = append(args, line[from:i:i])
	}
	return args, end + 1, nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// parseInteger reads a signed 64-bit number as Redis writes them: no blanks, no plus, no leading zeros.
func parseInteger(b []byte) (value int64, ok bool) {
	digits, negative := b, false
	if len(b) > 0 && b[0] == '-' {
		digits, negative = b[1:], true
	}
	const digitsMax = 19
	if len(digits) == 0 || len(digits) > digitsMax || digits[0] == '0' && (len(digits) > 1 || negative) {
		return 0, false
	}
	var sum uint64 // 19 digits fit
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		sum = sum*10 + uint64(c-'0')
	}
	switch {
	case negative && sum <= 1<<63:
		return -int64(sum), true
	case !negative && sum < 1<<63:
		return int64(sum), true
	}
	return 0, false
}
