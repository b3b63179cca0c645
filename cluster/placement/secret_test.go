package placement

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestASecretIsNeverPrinted(t *testing.T) {
	secret := Secret(strings.Repeat("sEcReT07", 4))
	secrets := NewSecrets(secret)
	var text bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&text, verb+"\n", secret)
		fmt.Fprintf(&text, verb+"\n", secrets)
	}
	slog.New(slog.NewTextHandler(&text, nil)).Info("founded", "secret", secret, "secrets", secrets)
	slog.New(slog.NewJSONHandler(&text, nil)).Info("founded", "secret", secret)
	if !strings.Contains(text.String(), "(secret)") {
		t.Errorf("got %s", text.String())
	}
	for _, form := range []string{"sEcReT07", base64.StdEncoding.EncodeToString(secret)[:20],
		fmt.Sprintf("%x", []byte(secret))[:16], fmt.Sprintf("%X", []byte(secret))[:16],
		strings.Trim(fmt.Sprint([]byte(secret[:4])), "[]"), "0x73, 0x45"} {
		if strings.Contains(text.String(), form) {
			t.Errorf("%s is printed:\n%s", form, text.String())
		}
	}
}

func TestSecretsAreReadAsTheyWereWritten(t *testing.T) {
	secret := Secret(bytes.Repeat([]byte{7}, 32))
	text := NewSecrets(secret).Encode()
	if want := `{"Sealing":[{"Number":1,"Key":"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="}]}`; string(text) != want {
		t.Errorf("written as %s, want %s", text, want)
	}
	read, err := DecodeSecrets(text)
	if err != nil || !bytes.Equal(read.Sealing[0].Key, secret) {
		t.Errorf("%v, %v", read, err)
	}
	if shown := fmt.Sprintf("%v %+v %#v", read, read, *read); strings.Contains(shown, "7") {
		t.Errorf("shown as %s", shown)
	}
	for _, wrong := range []string{"", "{}", `{"Sealing":[]}`, `{"Sealing":[{"Number":1,"Key":"Bwc="}]}`,
		strings.Replace(string(text), `:1,`, `:0,`, 1), strings.TrimSuffix(string(text), "}") + `,"Seals":2}`,
		strings.Replace(string(text), `[{`, string(text)[11:len(text)-2]+`,{`, 1)} {
		if _, err := DecodeSecrets([]byte(wrong)); err == nil {
			t.Errorf("%s was read", wrong)
		}
	}

}

func FuzzDecodeSecrets(f *testing.F) {
	f.Add(NewSecrets(Secret(bytes.Repeat([]byte{7}, 32))).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeSecrets(b)
		if err != nil {
			return
		}
		again, err := DecodeSecrets(s.Encode())
		if err != nil || !bytes.Equal(again.Encode(), s.Encode()) {
			t.Errorf("%q: %v", b, err)
		}
	})
}
