package main

import "testing"

func TestTheAddressThatIsPrintedCanBeDialled(t *testing.T) {
	for bound, want := range map[string]string{
		"127.0.0.1:7400":   "127.0.0.1:7400",
		"[::]:7400":        "127.0.0.1:7400",
		"0.0.0.0:8000":     "127.0.0.1:8000",
		"192.0.2.7:7400":   "192.0.2.7:7400",
		"[2001:db8::1]:80": "[2001:db8::1]:80",
	} {
		if got := dialable(bound); got != want {
			t.Errorf("bound to %s: %s, want %s", bound, got, want)
		}
	}
}
