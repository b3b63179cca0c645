package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/stinttest"
)

// start starts a stint with the site's policies, and the site. The clock of stint goes on by itself, so the test begins
// with a minute.
func start(t *testing.T) (*stinttest.Server, http.Handler) {
	t.Helper()
	policies, err := os.ReadFile("policies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	stint := stinttest.Start(t, string(policies))
	now := stint.Now()
	stint.Advance(now.Truncate(time.Minute).Add(time.Minute).Sub(now))
	return stint, site(stint.Client())
}

// visit opens the site's first page from an address.
func visit(site http.Handler, ip string) *httptest.ResponseRecorder {
	return serve(site, ip, httptest.NewRequest(http.MethodGet, "/", nil))
}

// signIn sends the form, as a browser does.
func signIn(site http.Handler, ip, email, password string) *httptest.ResponseRecorder {
	form := url.Values{"email": {email}, "password": {password}}
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "text/html")
	return serve(site, ip, r)
}

func serve(site http.Handler, ip string, r *http.Request) *httptest.ResponseRecorder {
	r.RemoteAddr = ip + ":50000"
	w := httptest.NewRecorder()
	site.ServeHTTP(w, r)
	return w
}

func TestAHundredRequestsAMinuteAndNotOneMore(t *testing.T) {
	t.Parallel()
	_, site := start(t)
	for i := 1; i <= 100; i++ {
		response := visit(site, "192.0.2.1")
		if left := response.Header().Get("X-RateLimit-Remaining"); response.Code != http.StatusOK ||
			left != strconv.Itoa(100-i) {
			t.Fatalf("request %d: status %d, and %q are left", i, response.Code, left)
		}
	}
	for range 3 { // a denial is not counted
		response := visit(site, "192.0.2.1")
		wait, _ := strconv.Atoi(response.Header().Get("Retry-After"))
		if response.Code != http.StatusTooManyRequests || wait < 1 || wait > 60 {
			t.Errorf("after a hundred requests: status %d, wait %d s", response.Code, wait)
		}
	}
}

func TestTwoAddressesCountApart(t *testing.T) {
	t.Parallel()
	_, site := start(t)
	for _, ip := range []string{"192.0.2.1", "192.0.2.2"} {
		if left := visit(site, ip).Header().Get("X-RateLimit-Remaining"); left != "99" {
			t.Errorf("%s has %s left after its first request", ip, left)
		}
	}
}

func TestWhenTheMinuteIsOverTheCountBeginsAgain(t *testing.T) {
	t.Parallel()
	stint, site := start(t)
	for range 101 {
		visit(site, "192.0.2.1")
	}
	response := visit(site, "192.0.2.1")
	wait, err := strconv.Atoi(response.Header().Get("Retry-After"))
	if response.Code != http.StatusTooManyRequests || err != nil {
		t.Fatalf("status %d, Retry-After: %v", response.Code, err)
	}
	stint.Advance(time.Duration(wait) * time.Second)
	if response = visit(site, "192.0.2.1"); response.Code != http.StatusOK ||
		response.Header().Get("X-RateLimit-Remaining") != "99" {
		t.Errorf("after the wait: status %d, %v", response.Code, response.Header())
	}
}

func TestTheSixthWrongPasswordIsNotTried(t *testing.T) {
	t.Parallel()
	stint, site := start(t)
	for i := range 5 {
		if response := signIn(site, "192.0.2.1", "Ann@example.com", "wrong"); response.Code != http.StatusForbidden {
			t.Fatalf("attempt %d: status %d", i+1, response.Code)
		}
	}
	response := signIn(site, "192.0.2.1", " ann@example.com", "correct horse")
	for _, want := range []string{"<h1>One moment, please</h1>",
		"too many attempts to sign in. Please try again in 15 minutes."} {
		if !strings.Contains(response.Body.String(), want) {
			t.Errorf("people do not read %q in\n%s", want, response.Body)
		}
	}
	if wait, _ := strconv.Atoi(response.Header().Get("Retry-After")); response.Code != http.StatusTooManyRequests ||
		wait < 14*60 || wait > 15*60 {
		t.Errorf("the sixth attempt: status %d, wait %d s", response.Code, wait)
	}
	if response = signIn(site, "192.0.2.2", "ann@example.com", "correct horse"); response.Code != http.StatusOK {
		t.Errorf("ann, elsewhere, is locked out: status %d", response.Code)
	}
	stint.Advance(15 * time.Minute)
	if response = signIn(site, "192.0.2.1", "ann@example.com", "correct horse"); response.Code != http.StatusOK {
		t.Errorf("after the wait: status %d", response.Code)
	}
}

func TestARightPasswordCostsNothing(t *testing.T) {
	t.Parallel()
	_, site := start(t)
	for i := range 20 {
		if response := signIn(site, "192.0.2.1", "ann@example.com", "correct horse"); response.Code != http.StatusOK {
			t.Fatalf("sign-in %d: status %d", i+1, response.Code)
		}
	}
}

func TestProgramsGetAProblemDocument(t *testing.T) {
	t.Parallel()
	_, site := start(t)
	for range 100 {
		visit(site, "192.0.2.1")
	}
	response := visit(site, "192.0.2.1")
	if response.Header().Get("Content-Type") != "application/problem+json" ||
		!strings.Contains(response.Body.String(), `"violated-policies":["per-ip/minute"]`) {
		t.Errorf("%v\n%s", response.Header(), response.Body)
	}
	if response = serve(site, "192.0.2.1",
		httptest.NewRequest(http.MethodGet, "/style.css", nil)); response.Code != http.StatusOK {
		t.Errorf("a file is limited: status %d", response.Code)
	}
	if response = signIn(site, "192.0.2.3", "", "x"); response.Code != http.StatusBadRequest {
		t.Errorf("nobody signs in: status %d", response.Code)
	}
}

// Without a decision people can read, and nobody can guess passwords.
func TestWhileStintIsAway(t *testing.T) {
	t.Parallel()
	away, err := client.New(client.Config{Addresses: []string{"http://127.0.0.1:1"}}) // nobody listens there
	if err != nil {
		t.Fatal(err)
	}
	defer away.Close()
	site := site(away)
	if response := visit(site, "192.0.2.1"); response.Code != http.StatusOK ||
		response.Header().Get("Stint-Failed") != "open" {
		t.Errorf("the first page: status %d, %v", response.Code, response.Header())
	}
	if response := signIn(site, "192.0.2.1", "ann@example.com",
		"correct horse"); response.Code != http.StatusServiceUnavailable {
		t.Errorf("a login: status %d", response.Code)
	}
}

func TestWaitsAreRoundedUp(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{time.Second: "in a minute", 61 * time.Second: "in 2 minutes",
		15 * time.Minute: "in 15 minutes", 2*time.Hour + 1: "in 3 hours", 24 * time.Hour: "in 24 hours"} {
		if got := in(wait); got != want {
			t.Errorf("%v: %s, want %s", wait, got, want)
		}
	}
}
