// Package ipctest stands in for either process in tests.
//
//	Pair                     both ends in memory, with real bytes between them
//	StartEngine, NewEngine   an engine whose answers the test decides
//	StartFrontend            a frontend that asks what the test says
//
// The scripted peers work over sockets and in memory alike. Their methods fail
// the test when the peer does not do what is waited for.
package ipctest

import (
	"context"
	"time"

	"govllm/protocol"
)

// EngineSide is what an engine needs of its connection; *ipc.EngineConn has it.
type EngineSide interface {
	Requests() <-chan protocol.FrontendMessage
	Aborts() <-chan protocol.Abort
	Buffer() []byte
	Send(clientIndex int, payload []byte) error
	SendDead()
	Lost() <-chan error
}

// FrontendSide is what a frontend needs of its; *ipc.FrontendConn has it.
type FrontendSide interface {
	Buffer() []byte
	Send(engine int, t protocol.RequestType, payload []byte) error
	Run(ctx context.Context, deliver func(*protocol.EngineCoreOutputs)) error
	Lost() <-chan error
}

// patience bounds every wait: it fails a test and never makes one pass.
const patience = 20 * time.Second
