package testcluster

import (
	"net"
	"testing"
)

// TestASubnetWhereSomebodyListensIsNotTaken: a process that was left behind must not answer in the place of a node.
func TestASubnetWhereSomebodyListensIsNotTaken(t *testing.T) {
	s, err := claimSubnet()
	if err != nil {
		t.Fatal(err)
	}
	s.release()
	stranger, err := net.Listen("tcp", hostPort(s.ip(1), apiPort))
	if err != nil {
		t.Fatal(err)
	}
	if s.take() == nil {
		t.Error("its first node has an address at which a stranger listens")
	}
	stranger.Close()
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	s.release()
}
