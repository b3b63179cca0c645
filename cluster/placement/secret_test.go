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
	table := NewTable("c", foundersIn("a"), 1, 1).ApplySecret(secret)
	var text bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&text, verb+"\n", secret)
		fmt.Fprintf(&text, verb+"\n", table)
	}
	slog.New(slog.NewTextHandler(&text, nil)).Info("founded", "secret", secret, "table", table)
	slog.New(slog.NewJSONHandler(&text, nil)).Info("founded", "secret", secret)
	if !strings.Contains(text.String(), "(secret)") {
		t.Errorf("got %s", text.String())
	}
	for _, form := range []string{"sEcReT07", base64.StdEncoding.EncodeToString(secret)[:20], fmt.Sprintf("%x", []byte(secret))[:16],
		fmt.Sprintf("%X", []byte(secret))[:16], strings.Trim(fmt.Sprint([]byte(secret[:4])), "[]"), "0x73, 0x45"} {
		if strings.Contains(text.String(), form) {
			t.Errorf("%s is printed:\n%s", form, text.String())
		}
	}
}

// A cluster gets its secret once, and keeps it in its table.
func TestATableKeepsItsSecret(t *testing.T) {
	without := NewTable("c", foundersIn("a", "b", "c"), 4, 3)
	if _, ok := without.Secret.Key(); ok || strings.Contains(string(without.Encode()), "Secret") {
		t.Errorf("a table without a secret is written as %s", without.Encode())
	}
	secret := Secret(bytes.Repeat([]byte{7}, 32))
	table := without.ApplySecret(secret)
	if without.Secret != nil || table.ApplySecret(Secret(bytes.Repeat([]byte{8}, 32))) != nil {
		t.Error("the secret was changed")
	}
	read, err := DecodeTable(table.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if key, ok := read.Secret.Key(); !ok || !bytes.Equal(key[:], secret) {
		t.Errorf("the secret is read as %x", key)
	}
	if next := read.ApplyNodeState("n2", NodeDraining); !bytes.Equal(next.Secret, secret) {
		t.Error("a change of the table lost the secret")
	}
	read.Clone().Secret[0]++
	if !bytes.Equal(read.Secret, secret) {
		t.Error("a clone shares the secret")
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
		strings.Replace(string(text), `:1,`, `:0,`, 1), strings.TrimSuffix(string(text), "}") + `,"Seals":2}`, strings.Replace(string(text), `[{`, string(text)[11:len(text)-2]+`,{`, 1)} {
		if _, err := DecodeSecrets([]byte(wrong)); err == nil {
			t.Errorf("%s was read", wrong)
		}
	}
	table := NewTable("c", foundersIn("a"), 1, 1).ApplySecret(secret)
	if moved := table.ApplySecretMoved(); len(moved.Secret) != 0 || len(table.Secret) == 0 || moved.ApplySecretMoved() != nil {
		t.Error("the secret did not leave the table once")
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
