package modelrunner

import (
	"errors"
	"strings"
	"testing"

	"govllm/kernels"
)

// slowDevice is a device whose Sync waits for the test.
type slowDevice struct {
	kernels.Device
	sync func(kernels.Queue) error
}

func (d *slowDevice) NewQueue(maxOps int) (kernels.Queue, error) {
	q, err := d.Device.NewQueue(maxOps)
	return &slowQueue{q, d}, err
}

type slowQueue struct {
	kernels.Queue
	dev *slowDevice
}

func (q *slowQueue) Sync() error { return q.dev.sync(q.Queue) }

func TestStartReturnsBeforeTheDeviceIsDone(t *testing.T) {
	goOn := make(chan struct{})
	dev := &slowDevice{openDevice(t, "ref"), func(q kernels.Queue) error {
		<-goOn
		return q.Sync()
	}}
	r := newRunner(t, dev, tinyModel(t, dev), smallConfig)
	pass := r.Start(admit(0, greedy(), 1, 2))
	close(goOn) // only now may the device work
	if got := sample(t, pass).Sampled; got[0] < 0 {
		t.Errorf("Sampled = %v, want a token", got)
	}
}

func TestDeviceFailureReachesSample(t *testing.T) {
	broken := errors.New("device lost")
	dev := &slowDevice{openDevice(t, "ref"), func(kernels.Queue) error { return broken }}
	r := newRunner(t, dev, tinyModel(t, dev), smallConfig)
	if _, err := r.Start(admit(0, greedy(), 1)).Sample(); !errors.Is(err, broken) {
		t.Errorf("Sample() = %v, want %v", err, broken)
	}
}

func TestDevicePanicIsAnError(t *testing.T) {
	dev := &slowDevice{openDevice(t, "ref"), func(kernels.Queue) error { panic("bug in a kernel") }}
	r := newRunner(t, dev, tinyModel(t, dev), smallConfig)
	if _, err := r.Start(admit(0, greedy(), 1)).Sample(); err == nil || !strings.Contains(err.Error(), "bug in a kernel") {
		t.Errorf("Sample() = %v, want the panic's text", err)
	}
}

func TestBadTokenIsTheDevicesError(t *testing.T) {
	dev := openDevice(t, "ref")
	r := newRunner(t, dev, tinyModel(t, dev), smallConfig)
	if _, err := r.Start(admit(0, greedy(), 131)).Sample(); !errors.Is(err, kernels.ErrIndex) {
		t.Errorf("Sample() of token 131 of 131 = %v, want ErrIndex", err)
	}
}

func TestCloseWaitsForThePass(t *testing.T) {
	dev := openDevice(t, "ref")
	r, err := New(dev, tinyModel(t, dev), smallConfig)
	must(t, err)
	r.Start(admit(0, greedy(), 1, 2))
	if err := r.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
}
