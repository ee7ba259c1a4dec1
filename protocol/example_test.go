package protocol_test

import (
	"fmt"

	"govllm/protocol"
)

// One ADD and its answer, as bytes in between.
func Example() {
	params := protocol.DefaultSamplingParams()
	params.Temperature = 0
	payload := protocol.AppendRequest(nil, &protocol.EngineCoreRequest{
		RequestID: "r", PromptTokenIDs: []int32{1, 15, 300}, SamplingParams: &params})

	switch m := protocol.DecodeFrontendMessage([][]byte{{byte(protocol.RequestAdd)}, payload}).(type) {
	case *protocol.EngineCoreRequest:
		fmt.Println(m.RequestID, m.PromptTokenIDs, m.SamplingParams.Temperature, *m.SamplingParams.MaxTokens)
	case *protocol.FieldError:
		fmt.Println("answer with an error:", m)
	}

	payload = protocol.AppendOutputs(nil, &protocol.EngineCoreOutputs{
		Timestamp: 12.5,
		Outputs:   []protocol.EngineCoreOutput{{RequestID: "r", NewTokenIDs: []int32{42}, FinishReason: protocol.FinishLength}},
	})
	var d protocol.OutputsDecoder
	o, err := d.Decode([][]byte{payload})
	fmt.Println(o.Outputs[0].RequestID, o.Outputs[0].NewTokenIDs, o.Outputs[0].FinishReason, err)

	// Output:
	// r [1 15 300] 0 16
	// r [42] length <nil>
}
