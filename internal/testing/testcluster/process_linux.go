package testcluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// attributes puts a process into its own process group, and makes the kernel kill it when this process dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// standsStill reports whether every thread of a process is stopped, or the process is gone. See proc(5): the state
// follows the name, which is in parentheses and may contain any character.
func standsStill(process int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", process))
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // this thread ended
		}
		state := text[bytes.LastIndexByte(text, ')')+1:]
		if len(state) < 2 || !bytes.ContainsRune([]byte("TtZX"), rune(state[1])) {
			return false
		}
	}
	return true
}
