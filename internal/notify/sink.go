package notify

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Kinds of sinks.
const (
	Webhook     = "webhook"     // Standard Webhooks
	Stripe      = "stripe"      // meter events of Stripe
	CloudEvents = "cloudevents" // batches of CloudEvents, in OpenMeter's form
)

// Kinds of events in a sink's Events.
const (
	Threshold = "threshold" // a key has used a certain share of a limit
	Usage     = "usage"     // final bills
	Spike     = "spike"     // a key is denied much more than usual
)

// Document is the name of the document that has all sinks.
const Document = "sinks"

// SinksMost bounds the sinks of a cluster, so that the document holds them.
const SinksMost = 64

// Sink is a destination of events. As JSON it is part of a stored document: its fields keep their names.
type Sink struct {
	Name    string
	Kind    string // Webhook, Stripe or CloudEvents
	URL     string
	Events  []string // kinds of events that it accepts, sorted
	Secrets []Secret // the newest first; at least one, except for CloudEvents without an API key
	// Prefix begins the keys that belong to a customer of Stripe, or a subject of CloudEvents: the rest of the key. Not
	// for a Webhook.
	Prefix   string    `json:",omitempty"`
	Disabled *Disabled `json:",omitempty"` // nil unless disabled
	// Looked is when it was last enabled, in Unix microseconds: skipped bills from before have been seen.
	Looked  int64  `json:",omitempty"`
	Created int64  // in Unix microseconds
	Creator string // the actor that made it
}

// Disabled is why nothing is sent to a sink.
type Disabled struct {
	At  int64 // in Unix microseconds
	Why string
}

// sinkName matches the names that a policy's notify list can hold.
var sinkName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// urlMost bounds the address of a sink.
const urlMost = 1024

// keyMost bounds the API key of a sink.
const keyMost = 512

// Problem returns the first wrong field of a new sink and its problem, or two empty strings. The field has its name in
// the API.
func (s *Sink) Problem() (field, problem string) {
	if !sinkName.MatchString(s.Name) {
		return "name", fmt.Sprintf("%q is not 1 to 64 letters, digits, dots, dashes and underscores", s.Name)
	}
	if s.Kind != Webhook && s.Kind != Stripe && s.Kind != CloudEvents {
		return "kind", fmt.Sprintf("%q is none of webhook, stripe, cloudevents", s.Kind)
	}
	if problem := urlProblem(s.URL); problem != "" {
		return "url", problem
	}
	if len(s.Events) == 0 {
		return "events", "must be given: threshold, usage, spike"
	}
	for _, e := range s.Events {
		switch {
		case e != Threshold && e != Usage && e != Spike:
			return "events", fmt.Sprintf("%q is none of threshold, usage, spike", e)
		case s.Kind != Webhook && e != Usage:
			return "events", s.Kind + " takes usage only: make a webhook for the others"
		}
	}
	if s.Prefix != "" && s.Kind == Webhook {
		return "prefix", "is for stripe and cloudevents only"
	}
	for _, secret := range s.Secrets {
		if s.Kind != Webhook && (len(secret.Key) == 0 || len(secret.Key) > keyMost || !isVisible(secret.Key)) {
			return "api_key", fmt.Sprintf("must be 1 to %d visible characters", keyMost)
		}
	}
	return "", ""
}

func isVisible(text []byte) bool {
	return !slices.ContainsFunc(text, func(b byte) bool { return b <= ' ' || b > '~' })
}

func urlProblem(text string) string {
	u, err := url.Parse(text)
	switch {
	case len(text) > urlMost:
		return fmt.Sprintf("has %d bytes; at most %d are allowed", len(text), urlMost)
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return "is no URL such as https://example.com/hooks"
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Sprintf("has the scheme %q: https is allowed, and http to addresses that the nodes allow", u.Scheme)
	case u.User != nil:
		return "has a user name or a password, which lists and logs would show: " +
			"leave it out, the receiver verifies signatures"
	case u.Fragment != "":
		return "has a fragment, which is not sent"
	}
	return ""
}

// Is reports whether the other is this sink, perhaps changed since, and not one that was made later under its name.
func (s *Sink) Is(other Sink) bool { return s.Name == other.Name && s.Created == other.Created }

// Takes reports whether the sink accepts a kind of events.
func (s *Sink) Takes(kind string) bool { return slices.Contains(s.Events, kind) }

// SecretsAt returns the secrets that sign messages at an instant, the newest first.
func (s *Sink) SecretsAt(now time.Time) []Secret {
	return slices.DeleteFunc(slices.Clone(s.Secrets), func(one Secret) bool {
		return one.Ends != 0 && one.Ends <= now.UnixMicro()
	})
}

// Rotate makes a secret the newest. The former one is used for overlap; earlier ones end. It writes into Secrets, so
// copies of the sink must not share that slice.
func (s *Sink) Rotate(next Secret, overlap time.Duration, now time.Time) {
	former := s.Secrets
	s.Secrets = []Secret{next}
	if overlap > 0 && len(former) > 0 {
		former[0].Ends = now.Add(overlap).UnixMicro()
		s.Secrets = append(s.Secrets, former[0])
	}
}

// sinksDocument is the content of the document.
type sinksDocument struct{ Sinks []Sink }

// Encode writes sinks, sorted by name. Equal sinks have equal bytes.
func Encode(all []Sink) []byte {
	all = slices.SortedFunc(slices.Values(all), func(a, b Sink) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.Marshal(sinksDocument{all})
	if err != nil {
		panic(err) // strings, numbers and bytes
	}
	return text
}

// Decode reads the output of Encode. Unknown fields are ignored: a newer version may have added them.
func Decode(body []byte) ([]Sink, error) {
	if len(body) == 0 {
		return nil, nil
	}
	var read sinksDocument
	if err := json.Unmarshal(body, &read); err != nil {
		return nil, fmt.Errorf("the sinks cannot be read: %w", err)
	}
	for i := range read.Sinks {
		if s := &read.Sinks[i]; len(s.Secrets) == 0 && s.Kind != CloudEvents {
			return nil, fmt.Errorf("the sinks cannot be read: %q has no secret", s.Name)
		}
	}
	return read.Sinks, nil
}
