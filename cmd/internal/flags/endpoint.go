package flags

import (
	"net"
	"strconv"
)

// tcpEndpoint writes an IPv6 address in brackets, as ZeroMQ wants it.
func tcpEndpoint(host string, port int) string {
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(port))
}
