package node

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
)

// A connection that waits to be accepted is accepted after new ones are refused, and what it has sent is read.
func TestADeafListenerAcceptsWhomItHasHeard(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", ":0"} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		early, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := early.Write([]byte("a request")); err != nil {
			t.Fatal(err)
		}
		if !deafen(listener) {
			t.Skip("this kernel lets nobody bind a listener to an interface: it is older than Linux 5.7")
		}
		if late, err := net.Dial("tcp", listener.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: who comes now gets %v and %v, want to be refused", address, late, err)
		}
		accepted, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		early.Close()
		if heard, err := io.ReadAll(accepted); string(heard) != "a request" || err != nil {
			t.Errorf("%s: heard %q and %v", address, heard, err)
		}
		accepted.Close()
	}
}
