package notify

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// The example of the specification's own libraries.
func TestSignaturesAreThoseOfStandardWebhooks(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := Signature([]Secret{{Key: key}}, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	both := Signature([]Secret{{Key: []byte("another")}, {Key: key}}, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
		[]byte(`{"test": 2432232314}`))
	if first, second, _ := strings.Cut(both, " "); second != got || first == got || !strings.HasPrefix(first, "v1,") {
		t.Errorf("with two secrets: %s", both)
	}
}

// A receiver is given 24 to 64 bytes, as the specification wants.
func TestTheTextOfASecretIsItsKey(t *testing.T) {
	s, err := NewSecret(rand.Reader, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	text, found := strings.CutPrefix(s.Text(), "whsec_")
	if key, err := base64.StdEncoding.DecodeString(text); !found || err != nil || !bytes.Equal(key, s.Key) ||
		len(key) < 24 || len(key) > 64 {
		t.Errorf("%v: %x, want %x", err, key, s.Key)
	}
}

func TestNoTextShowsASecret(t *testing.T) {
	sink := Sink{Name: "billing", Kind: Stripe, Secrets: []Secret{{Key: []byte("sk_live_marker_marker_marker")}}}
	marks := []string{"marker", fmt.Sprintf("%x", "marker"), sink.Secrets[0].Text()[6:], fmt.Sprintf("%d", 'm')}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", sink.Secrets[0], "sink", fmt.Sprint(sink))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&log, verb+"\n", sink)
		fmt.Fprintf(&log, verb+"\n", sink.Secrets[0])
		fmt.Fprintf(&log, verb+"\n", &sink.Secrets[0])
	}
	for _, mark := range marks {
		if strings.Contains(log.String(), mark) {
			t.Errorf("a text shows %q:\n%s", mark, log.String())
		}
	}
}
