package httpserver

import (
	"errors"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Listen opens the socket: a TCP port of host ("" for all addresses), or the
// Unix domain socket uds if that is not empty. Of a socket file that a process
// left behind nothing remains; one that somebody answers on is in use.
func Listen(host string, port int, uds string) (net.Listener, error) {
	if uds == "" {
		return net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	}
	l, err := net.Listen("unix", uds)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	if conn, dialErr := net.Dial("unix", uds); dialErr == nil {
		_ = conn.Close()
		return nil, err
	}
	if info, statErr := os.Lstat(uds); statErr != nil || info.Mode()&os.ModeSocket == 0 {
		return nil, err
	}
	if removeErr := os.Remove(uds); removeErr != nil {
		return nil, errors.Join(err, removeErr)
	}
	return net.Listen("unix", uds)
}
