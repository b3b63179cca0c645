package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

var noon = time.Date(2026, 10, 20, 12, 0, 0, 0, time.UTC)

// signed makes a message as stint does.
func signed(id string, at time.Time, body string) *http.Request {
	mac := hmac.New(sha256.New, []byte("0123456789abcdef0123456789abcdef"))
	fmt.Fprintf(mac, "%s.%d.%s", id, at.Unix(), body)
	r := httptest.NewRequest(http.MethodPost, "/events", strings.NewReader(body))
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
	r.Header.Set("webhook-signature", "v1,other v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return r
}

// A mail goes out for each id once, and for nothing that is forged or old.
func TestMail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mail.secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const body = `{"type":"threshold.reached","id":"evt_1","data":{"key":"customer:acme","limit":"month",` +
		`"threshold":"80%","units":800,"used":842,"quota":1000}}`
	forged := signed("evt_3", noon, body)
	forged.Header.Set("webhook-id", "evt_4")
	var mail strings.Builder
	v := &receiver{secretFile: file, now: func() time.Time { return noon }, mail: &mail, seen: map[string]bool{}}
	for i, c := range []struct {
		r      *http.Request
		status int
	}{
		{signed("evt_1", noon, body), http.StatusOK},
		{signed("evt_1", noon, body), http.StatusOK},
		{signed("evt_2", noon.Add(-301*time.Second), body), http.StatusUnauthorized},
		{signed("evt_2", noon.Add(301*time.Second), body), http.StatusUnauthorized},
		{forged, http.StatusUnauthorized},
		{httptest.NewRequest(http.MethodPost, "/events", strings.NewReader(body)), http.StatusUnauthorized},
		{signed("evt_5", noon, `{`), http.StatusBadRequest},
		{signed("evt_6", noon, strings.Repeat(" ", bodyMost+1)), http.StatusBadRequest},
		{signed("evt_7", noon, `{"type":"denials.spike","id":"evt_7"}`), http.StatusOK},
	} {
		w := httptest.NewRecorder()
		v.ServeHTTP(w, c.r)
		if w.Code != c.status {
			t.Errorf("message %d: %d, want %d", i+1, w.Code, c.status)
		}
	}
	if mail.String() != "mail to customer:acme: 842 of 1000 are used, which is 80% or more\n" {
		t.Errorf("mail: %s", &mail)
	}
}

// The program of docs/billing.md is this one.
func TestVerifyIsThatOfTheManual(t *testing.T) {
	page, err := os.ReadFile("../../../docs/billing.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("receive.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```go\n")
	program, _, ended := strings.Cut(rest, "```")
	if !found || !ended || !strings.Contains(string(code), program) {
		t.Errorf("receive.go does not have the manual's\n%s", program)
	}
}
