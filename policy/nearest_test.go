package policy

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"api", "login", "otp", "per-ip", "researcher"}
	for name, want := range map[string]string{
		"logn": "login", "lgoin": "login", "logins": "login", "Login": "login", "reseacher": "researcher",
		"per_ip": "per-ip", "per-pi": "per-ip", "aip": "api", "ap": "", "x": "", "": "", "signup": "", "loggings": "",
		"otp2fa": "",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("%q: did you mean %q, want %q", name, got, want)
		}
	}
}
