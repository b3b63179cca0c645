package main

import (
	"fmt"
	"log"
	"net/http"
	"strings"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client/stinthttp"
)

// content is what page.html shows.
type content struct {
	Title, Text string
	Form        bool
}

func show(w http.ResponseWriter, status int, c content) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := page.Execute(w, c); err != nil {
		log.Printf("the page: %v", err)
	}
}

// tooMany answers a denied request: people get a page, programs a problem document. Retry-After is already set.
func tooMany(w http.ResponseWriter, r *http.Request, d *stintv1.Decision) {
	if !isPerson(r) {
		stinthttp.Denied(w, r, d)
		return
	}
	text := d.GetReason()
	if d.GetRetryAfter() != nil {
		text += " Please try again " + in(d.GetRetryAfter().AsDuration()) + "."
	}
	show(w, http.StatusTooManyRequests, content{Title: "One moment, please", Text: text})
}

// failed answers a request without a key or a decision. It is also told of those that passed because the site stays
// open: w is nil then.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	log.Printf("%s %s: %v", r.Method, r.URL.Path, err)
	stinthttp.Failed(w, r, err)
}

func isPerson(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// in says how long to wait, rounded up.
func in(wait time.Duration) string {
	switch minutes := (wait + time.Minute - 1) / time.Minute; {
	case minutes <= 1:
		return "in a minute"
	case minutes <= 120:
		return fmt.Sprintf("in %d minutes", minutes)
	default:
		return fmt.Sprintf("in %d hours", (minutes+59)/60)
	}
}
