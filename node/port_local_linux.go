package node

import (
	"net"

	"golang.org/x/sys/unix"
)

// userOf returns the user of the process at the other end of a local connection: the one that dialed, or the one that
// listens.
func userOf(conn net.Conn) (user int, known bool) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, false
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if failed != nil || err != nil {
		return 0, false
	}
	return int(peer.Uid), true
}
