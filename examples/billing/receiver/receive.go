package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// event is what the receiver reads of a message.
type event struct {
	Type string
	Data struct {
		Key, Threshold string
		Used, Quota    uint64
	}
}

// bodyMost bounds a message, in bytes.
const bodyMost = 1 << 20

// receiver takes events, and writes the mail. It may be used concurrently.
type receiver struct {
	secretFile string // read for each message: after `stint sink rotate` it needs no restart
	now        func() time.Time
	mail       io.Writer

	mu   sync.Mutex
	seen map[string]bool // by id
}

func (v *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMost))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	secret, err := os.ReadFile(v.secretFile)
	if err != nil {
		http.Error(w, "the secret cannot be read", http.StatusInternalServerError) // stint tries again
		return
	}
	if !verify(strings.TrimSpace(string(secret)), r.Header, body, v.now()) {
		http.Error(w, "the signature is wrong, or the message is old", http.StatusUnauthorized)
		return
	}
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	v.take(r.Header.Get("webhook-id"), &e)
}

// take writes the mail for an event that is new.
func (v *receiver) take(id string, e *event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen[id] || e.Type != "threshold.reached" {
		return
	}
	v.seen[id] = true
	fmt.Fprintf(v.mail, "mail to %s: %d of %d are used, which is %s or more\n",
		e.Data.Key, e.Data.Used, e.Data.Quota, e.Data.Threshold)
}

// verify says whether a message is genuine and fresh.
func verify(secret string, header http.Header, body []byte, now time.Time) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	at, wrong := strconv.ParseInt(header.Get("webhook-timestamp"), 10, 64)
	if err != nil || wrong != nil || now.Sub(time.Unix(at, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.%s", header.Get("webhook-id"), at, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return slices.ContainsFunc(strings.Fields(header.Get("webhook-signature")), func(one string) bool {
		return hmac.Equal([]byte(one), []byte(want))
	})
}
