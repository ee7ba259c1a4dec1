// Package enginecore turns requests into tokens, step by step.
//
//	ipc → Intake → Loop → Core.Step { sched + kvcache → runner → sched } → ipc
//
// Core is the algorithm: plain calls, no goroutine, no clock of its own. Loop
// is the one goroutine that owns a Core and joins it to the frontends. Intake
// does what can be done where requests are decoded: it refuses what cannot be
// served and hashes prompts, so that the step loop need not.
//
// README.md keeps the invariants and the decisions.
package enginecore
