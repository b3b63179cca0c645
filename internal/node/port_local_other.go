//go:build !linux

package node

import "net"

// mayUseLocal relies on the data directory, which only its owner may enter.
func mayUseLocal(net.Conn) bool { return true }
