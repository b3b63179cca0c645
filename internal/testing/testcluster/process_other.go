//go:build !linux

package testcluster

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// standsStill cannot be determined here; true is assumed.
func standsStill(int) bool { return true }
