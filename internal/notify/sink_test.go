package notify

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

func TestTheDocumentOfSinksIsGolden(t *testing.T) {
	all := []Sink{
		{Name: "stripe", Kind: Stripe, URL: "https://api.stripe.com/v1/billing/meter_events", Events: []string{Usage},
			Prefix: "customer:", Secrets: []Secret{{Key: []byte("sk_test_1"), Made: 1}}, Created: 1, Creator: "root"},
		{Name: "billing", Kind: Webhook, URL: "https://example.com/hooks", Events: []string{Spike, Threshold},
			Secrets: []Secret{{Key: bytes.Repeat([]byte{7}, 32), Made: 2},
				{Key: bytes.Repeat([]byte{6}, 32), Made: 1, Ends: 5}},
			Disabled: &Disabled{At: 4, Why: "it answered 410"}, Created: 1, Creator: "root"},
		{Name: "meter", Kind: CloudEvents, URL: "https://openmeter.cloud/api/v1/events", Events: []string{Usage},
			Created: 1, Creator: "root"},
	}
	text := Encode(all)
	const golden = "testdata/sinks.golden"
	if *update {
		if err := os.WriteFile(golden, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Errorf("got %s\nwant %s", text, want)
	}
	read, err := Decode(want)
	if err != nil || len(read) != 3 || read[0].Name != "billing" || !bytes.Equal(Encode(read), want) {
		t.Errorf("read %v: %v", read, err)
	}
	for _, bad := range []string{"{", `{"Sinks":[{"Name":"x"}]}`} {
		if _, err := Decode([]byte(bad)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

func TestSinksAreCheckedByField(t *testing.T) {
	good := Sink{Name: "billing", Kind: Webhook, URL: "https://example.com/hooks?a=b", Events: []string{Threshold}}
	if field, problem := good.Problem(); problem != "" {
		t.Errorf("%s %s", field, problem)
	}
	for name, change := range map[string]func(*Sink){
		"name":    func(s *Sink) { s.Name = "a b" },
		"kind":    func(s *Sink) { s.Kind = "mail" },
		"url":     func(s *Sink) { s.URL = "ftp://example.com" },
		"url 2":   func(s *Sink) { s.URL = "https://user:pass@example.com/" },
		"url 3":   func(s *Sink) { s.URL = "example.com" },
		"url 4":   func(s *Sink) { s.URL = "https://:443/" },
		"url 5":   func(s *Sink) { s.URL = "https://example.com/" + strings.Repeat("x", urlMost) },
		"url 6":   func(s *Sink) { s.URL = "https://example.com/#x" },
		"events":  func(s *Sink) { s.Events = nil },
		"event 2": func(s *Sink) { s.Events = []string{"all"} },
		"event 3": func(s *Sink) { s.Kind = Stripe },
		"event 4": func(s *Sink) { s.Kind = CloudEvents },
		"prefix":  func(s *Sink) { s.Prefix = "customer:" },
		"api_key": func(s *Sink) {
			s.Kind, s.Events, s.Secrets = Stripe, []string{Usage}, []Secret{{Key: []byte("sk\n")}}
		},
		"api_key 2": func(s *Sink) { s.Kind, s.Events, s.Secrets = CloudEvents, []string{Usage}, []Secret{{}} },
	} {
		s := good
		change(&s)
		want, _, _ := strings.Cut(name, " ")
		if field, problem := s.Problem(); problem == "" || !strings.HasPrefix(field, want) {
			t.Errorf("%s: %q %q", name, field, problem)
		}
	}
}

func TestTheFormerSecretEndsAfterItsOverlap(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := Sink{Secrets: []Secret{{Key: []byte("first")}}}
	s.Rotate(Secret{Key: []byte("second")}, time.Hour, now)
	count := func(at time.Time) int { return len(s.SecretsAt(at)) }
	if count(now) != 2 || count(now.Add(time.Hour-1000)) != 2 || count(now.Add(time.Hour)) != 1 ||
		string(s.SecretsAt(now)[0].Key) != "second" {
		t.Errorf("%d, then %d secrets", count(now), count(now.Add(time.Hour)))
	}
	s.Rotate(Secret{Key: []byte("third")}, 0, now)
	if all := s.SecretsAt(now); len(all) != 1 || string(all[0].Key) != "third" {
		t.Errorf("without an overlap: %d secrets", len(all))
	}
}
