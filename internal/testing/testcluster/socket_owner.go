package testcluster

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// dialer finds the node of the process that holds the other end of a connection: the kernel lists sockets with their
// inodes, and each process's open files.
func (m *mesh) dialer(conn net.Conn) int {
	inode, ok := inodeOf(conn.RemoteAddr(), conn.LocalAddr())
	if !ok {
		return stranger
	}
	for i := range m.cluster.Len() {
		l := m.cluster.node(i).current()
		if !l.running() {
			continue
		}
		for _, process := range append(childrenOf(l.command.Process.Pid), l.command.Process.Pid) {
			if holds(process, inode) {
				return i
			}
		}
	}
	return stranger
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
