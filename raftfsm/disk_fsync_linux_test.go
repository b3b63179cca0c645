package raftfsm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refuseFsyncs makes the kernel answer every further fsync and fdatasync of this process with EIO.
func refuseFsyncs() error {
	const answer = 0x00050000 | uint32(unix.EIO) // SECCOMP_RET_ERRNO
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FDATASYNC, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: answer},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000}, // SECCOMP_RET_ALLOW
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	const setFilter, allThreads = 1, 1
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, setFilter, allThreads,
		uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}

// Code that must fsync before it reports success sees the failure of that fsync, which proves that it makes one: votes,
// terms, small files and directories. The kernel injects the failure, because bolt's file works on a real disk only.
func TestWhatIsSaidToBeThereIsFsynced(t *testing.T) {
	const child = "STINT_TEST_WITHOUT_FSYNC"
	if dir := os.Getenv(child); dir != "" {
		file := openBoltFile(t, filepath.Join(dir, boltName))
		if err := refuseFsyncs(); err != nil {
			t.Fatal(err)
		}
		vote := &stableStore{file: file, prefix: "1-1/", voteTerm: 7}
		fmt.Println("a vote:", vote.Set([]byte(keyVoteFor), []byte("n1/1/1")))
		fmt.Println("a term:", vote.SetUint64([]byte(keyCurrentTerm), 7))
		fmt.Println("a mark:", writeWhole(newDisk(nil), filepath.Join(dir, "mark"), []byte("mark")))
		fmt.Println("a directory:", makeDir(newDisk(nil), filepath.Join(dir, "new")))
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), child+"="+t.TempDir())
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, output)
	}
	for _, what := range []string{"a vote", "a term", "a mark", "a directory"} {
		line := ""
		for l := range strings.Lines(string(output)) {
			if strings.HasPrefix(l, what+":") {
				line = l
			}
		}
		if !strings.Contains(line, unix.EIO.Error()) {
			t.Errorf("no fsync failed, and yet: %q", line)
		}
	}
}
