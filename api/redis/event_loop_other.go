//go:build !linux

package redis

// eventLoop answers no connection: there is no epoll.
type eventLoop struct{}

func (*eventLoop) rest(*conn) {}

func (*eventLoop) close() {}
