//go:build invariants

package invariants

// Enabled turns on the checks that walk whole structures.
const Enabled = true
