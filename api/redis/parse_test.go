package redis

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
)

func TestCommandsAreParsed(t *testing.T) {
	for sent, want := range map[string]string{
		"*1\r\n$4\r\nPING\r\n":              "PING",
		"*2\r\n$4\r\nINCR\r\n$3\r\na b\r\n": "INCR|a b",
		"*2\r\n$4\r\nINCR\r\n$0\r\n\r\n":    "INCR|",
		"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n": "GET|\r\n",
		"PING\r\n":                          "PING",
		"  SET  a\t1 \n":                    "SET|a|1",
		"\r\n":                              "",
		"*0\r\n":                            "",
		"*-1\r\n":                           "",
	} {
		args, n, err := parse([]byte(sent+"rest"), nil)
		if err != nil || n != len(sent) {
			t.Errorf("%q: %d bytes, %v; want %d", sent, n, err, len(sent))
		}
		if got := string(bytes.Join(args, []byte("|"))); got != want {
			t.Errorf("%q: %q, want %q", sent, got, want)
		}
		for cut := range len(sent) {
			if _, n, err := parse([]byte(sent[:cut]), nil); n != 0 || err != nil {
				t.Errorf("%q: %d, %v, although it is incomplete", sent[:cut], n, err)
			}
		}
	}
}

func TestWhatIsNoCommandOrTooLargeEndsTheConnection(t *testing.T) {
	long := strings.Repeat("x", commandBytesMax)
	for sent, want := range map[string]error{
		"*x\r\n":                             errArgumentCount,
		"*1025\r\n":                          errArgumentCount,
		"*99999999999999999999\r\n":          errArgumentCount,
		"*1\r\n:1\r\n":                       errNoBulk,
		"*1\r\n$-1\r\n":                      errBulkLength,
		"*1\r\n$65537\r\n":                   errBulkLength,
		"*1\r\n$65530\r\n":                   errBulkLength, // the whole command does not fit
		"*2\r\n$40000\r\n":                   nil,
		"*1\r\n$4\r\nPINGxx":                 errNoLineEnd,
		"GET \"a b\"\r\n":                    errQuotes,
		long:                                 errLineTooLong,
		strings.Repeat("a ", 1025) + "\r\n":  errArgumentCount,
		"*1\r\r\n":                           errArgumentCount,
		"*2\r\n$4\r\nINCR\r\n$" + long[:100]: errBulkLength,
	} {
		if _, n, err := parse([]byte(sent), nil); err != want || n != 0 {
			t.Errorf("%.40q: %d, %v; want %v", sent, n, err, want)
		}
	}
}

func TestIntegersAreThoseOfRedis(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "-1": -1, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63,
	} {
		if got, ok := parseInteger([]byte(text)); !ok || got != want {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "-", "+1", "01", "-0", "1 ", " 1", "1.0", "9223372036854775808",
		"-9223372036854775809", "99999999999999999999", "0x1"} {
		if got, ok := parseInteger([]byte(text)); ok {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// FuzzParse checks that the parser neither panics nor reads beyond its input, that it reads a command again from its
// canonical form, and that it never waits for more bytes than a command may have.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"*1\r\n$4\r\nPING\r\n", "*2\r\n$4\r\nINCR\r\n$1\r\na\r\n", "PING\r\n", "*-1\r\n",
		"*1\r\n$-1\r\n", "\n", "*3\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		args, n, err := parse(b, nil)
		if n < 0 || n > len(b) || err != nil && n != 0 || len(args) > argumentsMax {
			t.Fatalf("%q: %d bytes of %d, %d arguments, %v", b, n, len(b), len(args), err)
		}
		if err == nil && n == 0 && len(b) >= commandBytesMax {
			t.Fatalf("it waits for more than %d bytes", len(b))
		}
		if n == 0 || len(args) == 0 {
			return
		}
		again := []byte("*" + strconv.Itoa(len(args)) + "\r\n")
		for _, arg := range args {
			again = appendBulk(again, arg)
		}
		if len(again) > commandBytesMax {
			return
		}
		copies, m, err := parse(again, nil)
		if err != nil || m != len(again) || len(copies) != len(args) {
			t.Fatalf("%q: %d of %d, %v", again, m, len(again), err)
		}
		for i := range args {
			if !bytes.Equal(args[i], copies[i]) {
				t.Fatalf("argument %d: %q became %q", i, args[i], copies[i])
			}
		}
	})
}
