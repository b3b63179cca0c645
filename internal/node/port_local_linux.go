package node

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// mayUseLocal reports whether a connection comes from the process's own user or root.
func mayUseLocal(conn net.Conn) bool {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	allowed := false
	err = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		allowed = err == nil && (peer.Uid == 0 || int(peer.Uid) == os.Geteuid())
	})
	return err == nil && allowed
}
