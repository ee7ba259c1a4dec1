//go:build !race

package model_test

// raceEnabled shortens what the race detector makes slow.
const raceEnabled = false
