package node

import (
	"net"

	"golang.org/x/sys/unix"
)

// noInterface is the index of an interface that no machine has.
const noInterface = 1<<31 - 1

// deafen keeps a listener from hearing of new connections: who tries is refused at once, as if it were closed. Those it has
// heard of can still be accepted, also if their handshake is not over. Closing it resets them, with requests of which nobody
// could say whether they were counted. It reports whether that worked.
//
// A listener that is bound to an interface is not found by a packet that comes in by another one (socket(7),
// SO_BINDTODEVICE). The kernel takes any index, and asks for no privilege, if the socket was not bound before: Linux 5.7 and
// later. A socket filter would do on older ones, but leaves who comes in the dark for a second, and is not in every kernel.
func deafen(listener net.Listener) bool {
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	failed := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, noInterface)
	})
	return failed == nil && err == nil
}
