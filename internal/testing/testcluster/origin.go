package testcluster

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
)

// identifyPatience is how long a dialer may take to identify itself. After that it is a stranger.
const identifyPatience = 5 * time.Second

// byPreamble reads the preamble of a peer connection:
//
//	magic 4 | version 1 | length 2 | kind 1 | shard 4 | cluster | from | to     each text: length 2, bytes
//
// The name of a replica is node/shard/number (kind 1), that of a hop is the node's id (kind 2).
func (m *mesh) byPreamble(conn net.Conn) (from int, read []byte) {
	_ = conn.SetReadDeadline(time.Now().Add(identifyPatience)) // the read reports a closed connection
	defer conn.SetReadDeadline(time.Time{})
	read = make([]byte, 7)
	if n, err := io.ReadFull(conn, read); err != nil {
		return stranger, read[:n]
	}
	body := make([]byte, binary.BigEndian.Uint16(read[5:]))
	n, err := io.ReadFull(conn, body)
	read = append(read, body[:n]...)
	if err != nil {
		return stranger, read
	}
	name, ok := dialerOf(body)
	if !ok {
		return stranger, read
	}
	return m.cluster.byName(name), read
}

// dialerOf extracts the name of the dialing node from a preamble's body.
func dialerOf(body []byte) (string, bool) {
	if len(body) < 5 {
		return "", false
	}
	replica := body[0] == 1
	_, rest, ok := cutText(body[5:])
	if !ok {
		return "", false
	}
	name, _, ok := cutText(rest)
	for range 2 {
		if at := strings.LastIndexByte(name, '/'); replica && at >= 0 {
			name = name[:at]
		}
	}
	return name, ok
}

func cutText(b []byte) (text string, rest []byte, ok bool) {
	if len(b) < 2 {
		return "", nil, false
	}
	length := int(binary.BigEndian.Uint16(b))
	if len(b) < 2+length {
		return "", nil, false
	}
	return string(b[2 : 2+length]), b[2+length:], true
}

// bySocket finds the process that holds the other end of a connection: the kernel lists sockets with their inodes, and
// each process's open files. A gossip stream does not name its sender.
func (m *mesh) bySocket(conn net.Conn) (from int, read []byte) {
	inode, ok := inodeOf(conn.RemoteAddr(), conn.LocalAddr())
	if !ok {
		return stranger, nil
	}
	for i := range m.cluster.Len() {
		l := m.cluster.node(i).current()
		if !l.running() {
			continue
		}
		for _, process := range append(childrenOf(l.command.Process.Pid), l.command.Process.Pid) {
			if holds(process, inode) {
				return i, nil
			}
		}
	}
	return stranger, nil
}

// inodeOf finds the socket with the given local and remote addresses in the kernel's table.
func inodeOf(local, remote net.Addr) (inode string, ok bool) {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return "", false
	}
	want := hexAddress(local) + " " + hexAddress(remote) + " "
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, want) {
			if fields := strings.Fields(line); len(fields) > 9 {
				return fields[9], true
			}
		}
	}
	return "", false
}

// hexAddress formats an IPv4 address as /proc/net/tcp does on a little-endian machine.
func hexAddress(a net.Addr) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil || !at.Addr().Unmap().Is4() {
		return "none"
	}
	ip := at.Addr().Unmap().As4()
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], at.Port())
}

func holds(process int, inode string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", process)
	files, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, file := range files {
		if target, err := os.Readlink(dir + "/" + file.Name()); err == nil && target == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

// childrenOf lists the child processes of a process.
func childrenOf(process int) (children []int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", process, process))
	if err != nil {
		return nil
	}
	for _, field := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(field); err == nil {
			children = append(children, child)
		}
	}
	return children
}
