package kernels

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// ErrUnknownDevice reports a device name that no linked backend answers to.
var ErrUnknownDevice = errors.New("kernels: unknown device")

// ErrIndex reports, from Sync, a number in an Ints buffer that points outside
// what it indexes: a token ID beyond the table, a slot beyond the cache. The
// device is unusable afterwards.
var ErrIndex = errors.New("kernels: index out of range")

var (
	backendsMu sync.Mutex
	backends   = map[string]func(Options) (Device, error){}
)

// Register makes a backend known to Open. Backends call it from init, so a
// program has those it imports. A second backend of one name panics.
func Register(name string, open func(Options) (Device, error)) {
	backendsMu.Lock()
	defer backendsMu.Unlock()
	if _, ok := backends[name]; ok {
		panic("kernels: two backends named " + name)
	}
	backends[name] = open
}

// Devices returns the names that Open knows, sorted.
func Devices() []string {
	backendsMu.Lock()
	defer backendsMu.Unlock()
	return slices.Sorted(maps.Keys(backends))
}

// Open opens the named device. An unknown name is ErrUnknownDevice, and the
// message lists those there are.
func Open(name string, opt Options) (Device, error) {
	backendsMu.Lock()
	open, ok := backends[name]
	backendsMu.Unlock()
	if !ok {
		return nil, fmt.Errorf("%w %q (this program has: %s)", ErrUnknownDevice, name, strings.Join(Devices(), ", "))
	}
	return open(opt)
}
