//go:build race

package kerneltest

// raceEnabled shortens what runs ten times slower under the race detector: it
// needs the goroutines, not the sizes.
const raceEnabled = true
