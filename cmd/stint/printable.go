package main

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable writes text for a terminal. Keys, notes, and texts of servers and files come from others, and a terminal
// obeys control characters: so characters that would move the cursor, reorder a line or be invisible are written as an
// escape, as in \u202e. Ends of lines and tabs pass. Bytes that are not UTF-8 are escaped too, so each write must end
// with a whole character.
type printable struct{ io.Writer }

func (p printable) Write(text []byte) (int, error) {
	if bytes.IndexFunc(text, unseen) < 0 {
		return p.Writer.Write(text)
	}
	if _, err := io.WriteString(p.Writer, escaped(string(text), "\n\t")); err != nil {
		return 0, err
	}
	return len(text), nil
}

// raw returns the writer for bytes that must not change: JSON and other data for programs, and stint's own control
// sequences.
func raw(w io.Writer) io.Writer {
	if p, is := w.(printable); is {
		return p.Writer
	}
	return w
}

// escaped returns a text that is safe for a terminal; the characters of layout pass.
func escaped(text, layout string) string {
	var out []byte
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if c := text[:size]; strings.Contains(layout, c) || !unseen(r) {
			out = append(out, c...)
		} else {
			quoted := strconv.AppendQuoteToASCII(nil, c)
			out = append(out, quoted[1:len(quoted)-1]...)
		}
		text = text[size:]
	}
	return string(out)
}

// unseen reports whether a character is invisible, other than a space.
func unseen(r rune) bool {
	return r == utf8.RuneError || !unicode.IsPrint(r) ||
		unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
