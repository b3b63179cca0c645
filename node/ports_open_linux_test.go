package node

import (
	"net"
	"syscall"
	"testing"
)

// Every port for clients finds a client that vanished without a word. A pool that is silent for hours stays.
func TestClientsThatVanishAreFound(t *testing.T) {
	listener, err := new(ports).listenClients("api-addr", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	option := func(level, name int) (value int) {
		if err := raw.Control(func(fd uintptr) {
			value, err = syscall.GetsockoptInt(int(fd), level, name)
		}); err != nil {
			t.Fatal(err)
		}
		return value
	}
	if option(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE) == 0 {
		t.Error("no keepalive")
	}
	idle, every, times := option(syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE),
		option(syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL), option(syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT)
	if idle != 60 || idle+every*times > 120 {
		t.Errorf("first asked after %d s, then %d times every %d s: want 60 s, and the end within 2 minutes",
			idle, times, every)
	}
}
