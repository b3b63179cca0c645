package node

import (
	"net"

	"golang.org/x/sys/unix"
)

// noInterface is the index of an interface that no machine has.
const noInterface = 1<<31 - 1

// deafen keeps a listener from receiving new connections: a client that tries is refused at once, as if the listener
// were closed. Connections that it has already received can still be accepted, even if their handshake is not over.
// Closing the listener would reset them, together with requests of unknown outcome. It reports whether that worked.
//
// A packet that comes in by one interface does not find a listener that is bound to another one (socket(7),
// SO_BINDTODEVICE). The kernel takes any index, and asks for no privilege, if the socket was not bound before: Linux
// 5.7 and later. A socket filter would do on older kernels, but it leaves a client without an answer for a second, and
// not every kernel has it.
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
