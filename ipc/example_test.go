package ipc_test

import (
	"context"
	"fmt"

	"govllm/ipc"
	"govllm/protocol"
)

// Both ends in one process: start in either order, wait until ready, ask, and
// read answers until the engine goes.
func Example() {
	ctx := context.Background()
	frontend, err := ipc.Listen(ipc.FrontendOptions{HandshakeAddress: "tcp://127.0.0.1:0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer frontend.Close(ctx)
	go serve(ctx, frontend.HandshakeAddress())

	engines, err := frontend.WaitReady(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("block size", engines[0].Registration.BlockSize)
	frontend.Send(0, protocol.RequestAdd, protocol.AppendRequest(frontend.Buffer(),
		&protocol.EngineCoreRequest{RequestID: "r", PromptTokenIDs: []int32{1, 2, 3}}))
	err = frontend.Run(ctx, func(o *protocol.EngineCoreOutputs) {
		fmt.Println(o.Outputs[0].RequestID, o.Outputs[0].NewTokenIDs)
	})
	fmt.Println(err)

	// Output:
	// block size 32
	// r [3]
	// engine 0 lost: ipc: the connection is lost (input connection)
}

// serve is an engine that answers one request with its prompt's length.
func serve(ctx context.Context, address string) {
	engine, err := ipc.DialEngine(ctx, ipc.EngineOptions{HandshakeAddress: address, Headless: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close(ctx)
	if err := engine.Ready(ctx, &protocol.Registration{MaxModelLen: 4096, BlockSize: 32}); err != nil {
		fmt.Println(err)
		return
	}
	if add, ok := (<-engine.Requests()).(*protocol.EngineCoreRequest); ok {
		engine.Send(add.ClientIndex, protocol.AppendOutputs(engine.Buffer(), &protocol.EngineCoreOutputs{
			Outputs: []protocol.EngineCoreOutput{{RequestID: add.RequestID, NewTokenIDs: []int32{int32(len(add.PromptTokenIDs))}}}}))
	}
}
