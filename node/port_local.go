package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stint-io/stint/api"
)

// localSocket is the name of the socket in the data directory. The directory is closed to other users, so a process
// that reaches the socket could read the node's files too: it is the way in when no token is there yet, or the last one
// is lost.
const localSocket = "local.sock"

// localServer serves the API on the socket in the data directory.
type localServer struct {
	listener net.Listener
	server   *http.Server
	dir      *os.File // keeps the short path valid; nil: there is no directory
}

// serveLocal opens the socket, if the API is served. The data directory is this process's alone by now, so a socket
// that is there was left behind by one that was killed. Without the socket a node does all its work: a failure is
// logged.
func (p *ports) serveLocal(dataDir string) {
	if p.api == nil {
		return
	}
	door, err := p.listenLocal(dataDir)
	if err != nil {
		p.config.Logger.Warn("there is no socket in the data directory: stint token --data-dir will not work",
			"error", err)
		return
	}
	door.server = api.NewServer(p.api.Local(), p.config.Logger)
	p.local = door
	p.serving.Go(func() {
		if err := door.server.Serve(door.listener); !errors.Is(err, http.ErrServerClosed) && !p.stopping() {
			p.config.Logger.Error("serving the socket in the data directory", "error", err)
		}
	})
}

func (p *ports) listenLocal(dataDir string) (*localServer, error) {
	if p.config.World.Listen != nil {
		listener, err := p.config.World.Listen(filepath.Join(dataDir, localSocket))
		return &localServer{listener: listener}, err
	}
	dir, path, err := localPath(dataDir)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(dataDir, localSocket)); err != nil && !os.IsNotExist(err) {
		dir.Close()
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		dir.Close()
		return nil, err
	}
	return &localServer{listener: ownersOnly{listener}, dir: dir}, nil
}

// localPath returns a path of the socket that is short enough for the kernel: at most 107 bytes. It is valid while the
// directory is open.
func localPath(dataDir string) (dir *os.File, path string, err error) {
	if dir, err = os.Open(dataDir); err != nil {
		return nil, "", err
	}
	const short = 100
	if path = filepath.Join(dataDir, localSocket); len(path) > short {
		path = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), localSocket)
	}
	return dir, path, nil
}

// DialLocal connects to the API of the node that runs on a data directory.
func DialLocal(ctx context.Context, dataDir string) (net.Conn, error) {
	dir, path, err := localPath(dataDir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("no node runs on %s", dataDir)
	}
	if err != nil {
		return nil, err
	}
	if err := answersFor(dir, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// answersFor refuses a socket that another user has put in the place of the node's: the process that answers must
// belong to this user, to root, or to the owner of the data directory, as its node does.
func answersFor(dir *os.File, conn net.Conn) error {
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	user, known := userOf(conn)
	owner, _ := info.Sys().(*syscall.Stat_t)
	if known && (user == 0 || user == os.Geteuid() || owner != nil && user == int(owner.Uid)) {
		return nil
	}
	return fmt.Errorf("the socket in %s is of user %d, to whom the directory does not belong: nothing was sent; "+
		"who may write there?",
		dir.Name(), user)
}

// ownersOnly refuses connections of other users than the process's own and root.
type ownersOnly struct{ net.Listener }

// Accept implements net.Listener.
func (l ownersOnly) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if user, known := userOf(conn); known && (user == 0 || user == os.Geteuid()) {
			return conn, nil
		}
		conn.Close()
	}
}

// stop ends the calls under way when ctx ends.
func (d *localServer) stop(ctx context.Context) error {
	if d == nil {
		return nil
	}
	var err error
	if d.server.Shutdown(ctx) != nil {
		err = d.server.Close()
	}
	if d.dir != nil {
		err = errors.Join(err, d.dir.Close())
	}
	return err
}
