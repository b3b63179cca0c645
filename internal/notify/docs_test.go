package notify

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The programs of docs/billing.md take what is signed here, and refuse what is not.
func TestReceiversOfTheManualVerify(t *testing.T) {
	page, err := os.ReadFile("../../docs/billing.md")
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"type":"threshold.reached","data":{"key":"caf\u00e9"}}`
	secret := Secret{Key: []byte("0123456789abcdef0123456789abcdef")}
	signature := Signature([]Secret{{Key: []byte("the next secret, of 24 bytes")}, secret}, "evt_1", noon.Unix(),
		[]byte(body))
	for _, language := range []struct{ name, command, flag, program string }{
		{"python", "python3", "-c", `
def ask(secret, body, now, signature):
    return verify(secret, {"webhook-id": "evt_1", "webhook-timestamp": "%[1]d", "webhook-signature": signature}, body.encode(), now)
print(ask('%[2]s', '%[3]s', %[1]d, '%[4]s'), ask('%[2]s', '%[3]s ', %[1]d, '%[4]s'), ask('%[5]s', '%[3]s', %[1]d, '%[4]s'), ask('%[2]s', '%[3]s', %[1]d + 301, '%[4]s'),
  ask('%[2]s', '%[3]s', %[1]d, 'v1,x'))`},
		{"js", "node", "-e", `
const ask = (secret, body, now, signature) =>
  verify(secret, { 'webhook-id': 'evt_1', 'webhook-timestamp': '%[1]d', 'webhook-signature': signature }, Buffer.from(body), now)
console.log(ask('%[2]s', '%[3]s', %[1]d, '%[4]s'), ask('%[2]s', '%[3]s ', %[1]d, '%[4]s'), ask('%[5]s', '%[3]s', %[1]d, '%[4]s'), ask('%[2]s', '%[3]s', %[1]d + 301, '%[4]s'),
  ask('%[2]s', '%[3]s', %[1]d, 'v1,x'))`},
	} {
		t.Run(language.name, func(t *testing.T) {
			if _, err := exec.LookPath(language.command); err != nil {
				t.Skipf("%s is not installed", language.command)
			}
			_, rest, found := strings.Cut(string(page), "```"+language.name+"\n")
			program, _, ended := strings.Cut(rest, "```")
			if !found || !ended {
				t.Fatal("docs/billing.md has no program")
			}
			program += fmt.Sprintf(language.program, noon.Unix(), secret.Text(), strings.ReplaceAll(body, `\`, `\\`),
				signature, Secret{Key: []byte("another")}.Text())
			out, err := exec.CommandContext(t.Context(), language.command, language.flag, program).CombinedOutput()
			if got := strings.ToLower(strings.TrimSpace(string(out))); err != nil ||
				got != "true false false false false" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
