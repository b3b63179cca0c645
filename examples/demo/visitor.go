package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// visitor sends the requests, and draws what comes back.
type visitor struct {
	front    string
	out      io.Writer
	statuses map[int]int
	retry    string // of the newest denial
	killed   string
	longest  time.Duration
}

func (v *visitor) draw(ctx context.Context, kill func() (string, error)) error {
	fmt.Fprintln(v.out)
	for line := range strings.Lines(picture) {
		for _, c := range strings.TrimSuffix(line, "\n") {
			if c != ' ' {
				status, err := v.visit(ctx)
				if err != nil {
					return err
				}
				if status != http.StatusOK {
					c = '?' // refused too early
				}
			}
			fmt.Fprint(v.out, string(c))
		}
		if v.killed == "" && v.sent() >= lives {
			var err error
			if v.killed, err = kill(); err != nil {
				return err
			}
			fmt.Fprintf(v.out, "      <- kill -9 %s, which was counting", v.killed)
		}
		fmt.Fprintln(v.out)
	}
	fmt.Fprintln(v.out)
	var late bytes.Buffer
	for v.sent() < requests {
		status, err := v.visit(ctx)
		if err != nil {
			return err
		}
		mark := "x"
		if status == http.StatusOK {
			mark = "!" // admitted above the limit
		}
		late.WriteString(mark)
	}
	fmt.Fprintf(v.out, "  the cat is complete: %s\n\n", &late)
	return nil
}

func (v *visitor) sent() (n int) {
	for _, times := range v.statuses {
		n += times
	}
	return n
}

func (v *visitor) visit(ctx context.Context) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.front, nil)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0, err
	}
	v.longest = max(v.longest, time.Since(began))
	v.statuses[response.StatusCode]++
	if response.StatusCode == http.StatusTooManyRequests {
		v.retry = response.Header.Get("Retry-After")
	}
	return response.StatusCode, nil
}

// judge says what came back, and returns an error if that is not exactly what the limit says.
func (v *visitor) judge() error {
	passed, denied := v.statuses[http.StatusOK], v.statuses[http.StatusTooManyRequests]
	fmt.Fprintf(v.out, "%d x 200, then %d x 429 (Retry-After: %s). %s died in between: "+
		"one visitor waited %v, and no visit was lost or counted twice.\n",
		passed, denied, v.retry, v.killed, v.longest.Round(100*time.Millisecond))
	if passed != quota || denied != requests-quota {
		return fmt.Errorf("the limit is %d, and these came back: %v", quota, v.statuses)
	}
	return nil
}
