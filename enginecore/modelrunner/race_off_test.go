//go:build !race

package modelrunner

// raceEnabled shortens what the race detector makes slow.
const raceEnabled = false
