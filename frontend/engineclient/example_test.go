package engineclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"govllm/frontend/engineclient"
)

// A handler submits, takes updates until io.EOF, and closes in every case.
func Example() {
	conn := newFakeConn() // in the frontend: an *ipc.FrontendConn
	client := engineclient.New(conn, ranks(1), engineclient.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error)
	go func() { ran <- client.Run(ctx) }()

	stream, err := client.Submit(ctx, request("cmpl-1", 4), engineclient.Meta{Arrival: time.Now()})
	if err != nil {
		panic(err)
	}
	defer stream.Close()
	conn.say(outputs(1, output("cmpl-1", none, 17)))
	conn.say(outputs(2, output("cmpl-1", length, 4)))
	for {
		update, err := stream.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			panic(err)
		}
		fmt.Println(update.TokenIDs, update.Finish)
	}
	cancel()
	fmt.Println(<-ran)
	// Output:
	// [17 4] length
	// <nil>
}
