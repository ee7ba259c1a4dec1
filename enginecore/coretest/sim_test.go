package coretest

import (
	"flag"
	"testing"
)

var (
	simOps  = flag.Int("sim-ops", 50_000, "random operations to simulate")
	simSeed = flag.Uint64("sim-seed", 0, "replay this one history")
)

// TestSimulation lives through random histories; see Simulate for what must
// hold in each. A failing seed is printed and replays the same history.
func TestSimulation(t *testing.T) {
	if *simSeed != 0 {
		if err := Simulate(*simSeed); err != nil {
			t.Fatalf("Simulate(%d) = %v", *simSeed, err)
		}
		return
	}
	for seed := uint64(1); seed <= uint64(*simOps/opsPerHistory); seed++ {
		if err := Simulate(seed); err != nil {
			t.Fatalf("Simulate(%d) = %v\nreplay: go test ./enginecore/coretest -run TestSimulation -args -sim-seed=%d", seed, err, seed)
		}
	}
}
