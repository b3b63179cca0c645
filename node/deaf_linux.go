package node

import (
	"context"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// dropHello is a socket filter that lets no first packet of a connection through: SYN without ACK. What follows is let
// through, or connections that are half made would be lost. A listener's filter sees packets from their TCP header on,
// whose 14th byte has the flags (RFC 9293, section 3.1).
var dropHello = [...]unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: flagSYN | flagACK},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: flagSYN},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 18},
}

const flagSYN, flagACK = 0x02, 0x10

// deafen keeps a listener from hearing of new connections, and waits until those it has heard of are accepted. Closing a
// listener resets what stands in its queue, with requests in it of which nobody could say whether they were counted; who
// is not heard tries again, and is then refused. It is best effort: the listener is closed next, one way or the other.
func deafen(ctx context.Context, listener net.Listener) {
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(dropHello)), Filter: &dropHello[0]})
	})
	for late := time.Now().Add(queuePatience); err == nil && time.Now().Before(late) && ctx.Err() == nil; {
		queued := uint32(0)
		raw.Control(func(fd uintptr) {
			var info *unix.TCPInfo
			if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				queued = info.Unacked // of a listener: connections that wait to be accepted (tcp(7))
			}
		})
		if queued == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(settleTime)
}

const (
	queuePatience = 200 * time.Millisecond
	settleTime    = 5 * time.Millisecond // what was just taken from the queue reaches the server
)
