package replay

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	lineEnd            = "\r\n" // any of them
	lineBytesMax       = 64 << 10
	progressEveryBytes = 256 << 10
)

var errLongLine = errors.New("the line is longer than 64 KiB")

// lines reads a log line by line, in bounded memory.
type lines struct {
	r        *bufio.Reader
	number   int               // of the last line read
	bytes    int64             // read so far
	told     int64             // bytes at the last call of progress
	progress func(bytes int64) // may be nil
}

func newLines(r io.Reader, progress func(int64)) *lines {
	return &lines{r: bufio.NewReaderSize(r, lineBytesMax), progress: progress}
}

// next returns the next line without its end, and io.EOF after the last one. A line that is too long is skipped, and
// next returns errLongLine once for it.
func (l *lines) next() (string, error) {
	text, err := l.r.ReadSlice('\n')
	l.count(len(text), false)
	if len(text) == 0 && errors.Is(err, io.EOF) {
		l.count(0, true)
		return "", io.EOF
	}
	l.number++
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", l.passOver()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimRight(string(text), lineEnd), nil
}

// skip discards bytes that were already peeked at.
func (l *lines) skip(bytes int) {
	n, _ := l.r.Discard(bytes) // the bytes are in the buffer
	l.count(n, false)
}

// passOver skips the rest of a line that did not fit into the buffer.
func (l *lines) passOver() error {
	for {
		text, err := l.r.ReadSlice('\n')
		l.count(len(text), false)
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return errLongLine
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// count adds bytes that were read, and tells of them now and then, and at the end.
func (l *lines) count(bytes int, end bool) {
	l.bytes += int64(bytes)
	if l.progress != nil && (end || l.bytes-l.told >= progressEveryBytes) {
		l.told = l.bytes
		l.progress(l.bytes)
	}
}

// lineError is the error of one line, after which a log is read on, and a CSV file is not (Events.fatal).
type lineError string

func (e lineError) Error() string { return string(e) }

func lineErrorf(format string, args ...any) error { return lineError(fmt.Sprintf(format, args...)) }
