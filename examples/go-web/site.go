package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"errors"
	"html/template"
	"log"
	"net/http"
	"strings"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/client/stinthttp"
)

//go:embed page.html style.css
var files embed.FS

var page = template.Must(template.ParseFS(files, "page.html"))

// site is the whole website but for its port. proxies are the networks of the proxies in front of it.
func site(limits *client.Client, proxies ...string) http.Handler {
	ip := stinthttp.ClientIP(proxies...)
	perIP := stinthttp.Entry("per-ip", ip)
	answers := []stinthttp.Option{stinthttp.OnDenied(tooMany), stinthttp.OnError(failed)}

	// Pages stay open while stint is away. A login does not: that would be the time to guess passwords.
	visit := stinthttp.Limit(limits, append(answers, perIP, stinthttp.FailOpen)...)
	attempt := stinthttp.Limit(limits, append(answers, perIP,
		// So a stranger who guesses does not lock the owner out.
		stinthttp.EntryOf("login-pair", stinthttp.Part{Name: "ip", Value: ip},
			stinthttp.Part{Name: "account", Value: account}),
		stinthttp.Entry("login-account", account),
		stinthttp.FailClosed, stinthttp.Within(2*time.Second))...)

	mux := http.NewServeMux()
	mux.Handle("GET /style.css", http.FileServerFS(files)) // in front of the limits: files cost no check
	mux.Handle("GET /{$}", visit(http.HandlerFunc(home)))
	mux.Handle("POST /login", attempt(login(limits)))
	return http.MaxBytesHandler(mux, 64<<10)
}

// account is the e-mail address of the login, in lower case and without spaces around it, so that no spelling has a
// count of its own.
func account(r *http.Request) (string, error) {
	email := strings.ToLower(strings.TrimSpace(r.PostFormValue("email")))
	if email == "" {
		return "", errors.New("the e-mail address is missing")
	}
	return email, nil
}

func home(w http.ResponseWriter, _ *http.Request) {
	show(w, http.StatusOK, content{Title: "Sign in", Form: true})
}

// login checks a password. The request is already counted. A right password gives back what it cost, so that people who
// sign in often are not stopped; wrong ones stay counted.
func login(limits *client.Client) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		email, _ := account(r)
		if !isPassword(email, r.PostFormValue("password")) {
			show(w, http.StatusForbidden, content{Title: "Sign in", Text: "That is not the password of this account.",
				Form: true})
			return
		}
		cancel := &stintv1.SettleRequest_Cancel{Cancel: &stintv1.Cancel{}}
		decision := &stintv1.SettleRequest_DecisionId{DecisionId: stinthttp.DecisionOf(r.Context()).GetDecisionId()}
		if _, err := limits.Settle(r.Context(), &stintv1.SettleRequest{Target: decision, Action: cancel}); err != nil {
			log.Printf("an attempt that succeeded stays counted: %v", err)
		}
		show(w, http.StatusOK, content{Title: "Welcome", Text: "You are signed in as " + email + "."})
	})
}

// users has one user, and a hash that is good enough for an example only: take bcrypt or argon2id.
var users = map[string][sha256.Size]byte{"ann@example.com": sha256.Sum256([]byte("correct horse"))}

func isPassword(email, password string) bool {
	want, given := users[email], sha256.Sum256([]byte(password))
	return subtle.ConstantTimeCompare(want[:], given[:]) == 1
}
