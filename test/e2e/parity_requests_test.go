package e2e

// A parityRequest is a row of the table. Body is sent as it stands, so that broken JSON can be
// sent too.
type parityRequest struct {
	name   string
	method string // "" is POST
	path   string
	body   string
	header map[string]string
}

const (
	pathCompletions = "/v1/completions"
	pathChat        = "/v1/chat/completions"
)

// completionRow is the greedy completion that most rows vary: members is put in front of
// the rest of the body.
func completionRow(name, members string) parityRequest {
	return parityRequest{name: name, path: pathCompletions, body: `{"model":"builtin","temperature":0,` + members + `}`}
}

// chatRow is the same for chat.
func chatRow(name, members string) parityRequest {
	return parityRequest{name: name, path: pathChat, body: `{"model":"builtin","temperature":0,` + members + `}`}
}

const (
	askStory = `"prompt":"Once upon a time there was a king","max_tokens":8`
	sayHello = `"messages":[{"role":"user","content":"Tell me a askStory."}],"max_tokens":8`
)

// parityRequests is the table. Sampling is greedy throughout: what is compared is the
// form of the answers, and the text where both must choose alike.
var parityRequests = []parityRequest{
	// Completions.
	completionRow("completion", askStory),
	completionRow("completion default max_tokens", `"prompt":"Once upon a time"`),
	completionRow("completion stream", askStory+`,"stream":true`),
	completionRow("completion stream usage", askStory+`,"stream":true,"stream_options":{"include_usage":true}`),
	completionRow("completion stream continuous usage", askStory+`,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`),
	completionRow("completion stream continuous usage alone", askStory+`,"stream":true,"stream_options":{"include_usage":false,"continuous_usage_stats":true}`),
	completionRow("completion list", `"prompt":["Once upon a time","The wolf said"],"max_tokens":4`),
	completionRow("completion list stream usage", `"prompt":["Once upon a time","The wolf said"],"max_tokens":1,"stream":true,"stream_options":{"include_usage":true}`),
	completionRow("completion ids", `"prompt":[5,6,7,8],"max_tokens":4`),
	completionRow("completion lists of ids", `"prompt":[[5,6,7,8],[9,10,11]],"max_tokens":4`),
	// top_k 1 is greedy too, and vLLM takes it with n.
	{name: "completion n", path: pathCompletions, body: `{"model":"builtin","top_k":1,` + askStory + `,"n":2}`},
	{name: "completion list n", path: pathCompletions, body: `{"model":"builtin","top_k":1,"prompt":["Once upon a time","The wolf said"],"max_tokens":2,"n":2}`},
	completionRow("completion echo", askStory+`,"echo":true`),
	completionRow("completion echo stream", askStory+`,"echo":true,"stream":true`),
	completionRow("completion echo without tokens", `"prompt":"Once upon a time","max_tokens":0,"echo":true`),
	completionRow("completion echo without tokens stream", `"prompt":"Once upon a time","max_tokens":0,"echo":true,"stream":true`),
	completionRow("completion logprobs 0", askStory+`,"logprobs":0`),
	completionRow("completion logprobs 3", askStory+`,"logprobs":3`),
	completionRow("completion logprobs stream", askStory+`,"logprobs":2,"stream":true`),
	completionRow("completion echo logprobs", `"prompt":"Once upon a time","max_tokens":3,"echo":true,"logprobs":2`),
	completionRow("completion echo logprobs stream", `"prompt":"Once upon a time","max_tokens":3,"echo":true,"logprobs":2,"stream":true`),
	completionRow("completion echo logprobs without tokens", `"prompt":"Once upon a time","max_tokens":0,"echo":true,"logprobs":1`),
	completionRow("completion prompt_logprobs", `"prompt":"Once upon a time","max_tokens":3,"prompt_logprobs":2`),
	completionRow("completion prompt_logprobs 0", `"prompt":"Once upon a time","max_tokens":3,"prompt_logprobs":0`),
	completionRow("completion prompt_logprobs stream", `"prompt":"Once upon a time","max_tokens":3,"prompt_logprobs":1,"stream":true`),
	completionRow("completion partial characters", `"prompt":"é – ü","max_tokens":6,"logprobs":1,"echo":true`),
	completionRow("completion stop", `"prompt":"Once upon a time there was a king","max_tokens":30,"stop":[" a "]`),
	completionRow("completion stop included", `"prompt":"Once upon a time there was a king","max_tokens":30,"stop":[" a "],"include_stop_str_in_output":true`),
	completionRow("completion stop stream", `"prompt":"Once upon a time there was a king","max_tokens":30,"stop":[" a "],"stream":true`),
	completionRow("completion stop logprobs", `"prompt":"Once upon a time there was a king","max_tokens":30,"stop":[" a "],"logprobs":1`),
	completionRow("completion return_token_ids", askStory+`,"return_token_ids":true`),
	completionRow("completion return_token_ids stream", askStory+`,"return_token_ids":true,"stream":true`),
	completionRow("completion return_tokens_as_token_ids", askStory+`,"logprobs":1,"return_tokens_as_token_ids":true`),
	completionRow("completion truncate_prompt_tokens", askStory+`,"truncate_prompt_tokens":3,"return_token_ids":true`),
	completionRow("completion truncate_prompt_tokens -1", askStory+`,"truncate_prompt_tokens":-1`),
	completionRow("completion add_special_tokens", askStory+`,"add_special_tokens":false,"return_token_ids":true`),
	completionRow("completion logit_bias", askStory+`,"logit_bias":{"40":100}`),
	completionRow("completion allowed_token_ids", askStory+`,"allowed_token_ids":[40,41,42]`),
	completionRow("completion bad_words", askStory+`,"bad_words":["who"]`),
	completionRow("completion min_tokens", askStory+`,"min_tokens":4`),
	completionRow("completion request_id", askStory+`,"request_id":"mine"`),
	completionRow("completion X-Request-Id", askStory).with("X-Request-Id", "mine"),
	completionRow("completion user", askStory+`,"user":"someone"`),
	completionRow("completion unknown field", askStory+`,"no_such_field":1`),
	completionRow("completion nulls", askStory+`,"stop":null,"n":null,"logprobs":null,"stream":null,"seed":null,"top_p":null,"user":null`),
	{name: "completion without model", path: pathCompletions, body: `{"temperature":0,` + askStory + `}`},

	// Completions that are refused.
	completionRow("completion temperature -1", askStory+`,"temperature":-1`),
	completionRow("completion top_p 0", askStory+`,"top_p":0`),
	completionRow("completion top_p 2", askStory+`,"top_p":2`),
	completionRow("completion top_k -2", askStory+`,"top_k":-2`),
	completionRow("completion min_p 2", askStory+`,"min_p":2`),
	completionRow("completion n greedy", askStory+`,"n":2`),
	completionRow("completion n 0", askStory+`,"n":0`),
	completionRow("completion max_tokens 0", `"prompt":"Once upon","max_tokens":0`),
	completionRow("completion max_tokens -1", `"prompt":"Once upon","max_tokens":-1`),
	completionRow("completion max_tokens too large", `"prompt":"Once upon","max_tokens":1000000`),
	completionRow("completion max_tokens text", `"prompt":"Once upon","max_tokens":"many"`),
	completionRow("completion presence_penalty 3", askStory+`,"presence_penalty":3`),
	completionRow("completion frequency_penalty -3", askStory+`,"frequency_penalty":-3`),
	completionRow("completion repetition_penalty 0", askStory+`,"repetition_penalty":0`),
	completionRow("completion min_tokens over", askStory+`,"min_tokens":9`),
	completionRow("completion min_tokens -1", askStory+`,"min_tokens":-1`),
	completionRow("completion logprobs -1", askStory+`,"logprobs":-1`),
	completionRow("completion logprobs 1000", askStory+`,"logprobs":1000`),
	completionRow("completion prompt_logprobs 1000", askStory+`,"prompt_logprobs":1000`),
	completionRow("completion prompt_logprobs -2", askStory+`,"prompt_logprobs":-2`),
	completionRow("completion stream_options alone", askStory+`,"stream_options":{"include_usage":true}`),
	completionRow("completion logit_bias text", askStory+`,"logit_bias":{"king":1}`),
	completionRow("completion logit_bias beyond", askStory+`,"logit_bias":{"100000":1}`),
	completionRow("completion allowed_token_ids empty", askStory+`,"allowed_token_ids":[]`),
	completionRow("completion allowed_token_ids beyond", askStory+`,"allowed_token_ids":[100000]`),
	completionRow("completion stop empty", askStory+`,"stop":[""]`),
	completionRow("completion bad_words empty", askStory+`,"bad_words":[""]`),
	completionRow("completion cache_salt empty", askStory+`,"cache_salt":""`),
	completionRow("completion truncate_prompt_tokens 0", askStory+`,"truncate_prompt_tokens":0`),
	completionRow("completion truncate_prompt_tokens -2", askStory+`,"truncate_prompt_tokens":-2`),
	completionRow("completion suffix", askStory+`,"suffix":"end"`),
	completionRow("completion prompt empty", `"prompt":"","max_tokens":1`),
	completionRow("completion prompt empty list", `"prompt":[],"max_tokens":1`),
	completionRow("completion prompt null", `"prompt":null,"max_tokens":1`),
	completionRow("completion no prompt", `"max_tokens":1`),
	completionRow("completion prompt number", `"prompt":5,"max_tokens":1`),
	completionRow("completion prompt id beyond", `"prompt":[100000],"max_tokens":1`),
	completionRow("completion prompt id -1", `"prompt":[-1],"max_tokens":1`),
	completionRow("completion prompt mixed", `"prompt":["a",1],"max_tokens":1`),
	completionRow("completion stream and best_of", askStory+`,"best_of":2`),
	completionRow("completion use_beam_search", askStory+`,"use_beam_search":true`),
	{name: "completion other model", path: pathCompletions, body: `{"model":"other",` + askStory + `}`},
	{name: "completion broken JSON", path: pathCompletions, body: `{"model":"builtin","prompt":`},
	{name: "completion empty body", path: pathCompletions, body: ``},
	{name: "completion array body", path: pathCompletions, body: `[]`},
	{name: "completion null body", path: pathCompletions, body: `null`},
	completionRow("completion plain text", askStory).with("Content-Type", "text/plain"),
	{name: "completion GET", method: "GET", path: pathCompletions},

	// Chat.
	chatRow("chat", sayHello),
	chatRow("chat stream", sayHello+`,"stream":true`),
	chatRow("chat stream usage", sayHello+`,"stream":true,"stream_options":{"include_usage":true}`),
	chatRow("chat stream continuous usage", sayHello+`,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`),
	chatRow("chat system", `"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"Tell me a askStory."}],"max_tokens":8`),
	chatRow("chat turns", `"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello."},{"role":"user","content":"Tell me a askStory."}],"max_tokens":8`),
	chatRow("chat parts", `"messages":[{"role":"user","content":[{"type":"text","text":"Tell me"},{"type":"text","text":"a askStory."}]}],"max_tokens":8`),
	chatRow("chat max_completion_tokens", `"messages":[{"role":"user","content":"Tell me a askStory."}],"max_completion_tokens":5`),
	chatRow("chat n", sayHello+`,"n":2`),
	chatRow("chat n stream usage", `"messages":[{"role":"user","content":"Tell me a askStory."}],"max_tokens":1,"n":2,"stream":true,"stream_options":{"include_usage":true}`),
	chatRow("chat logprobs", sayHello+`,"logprobs":true`),
	chatRow("chat top_logprobs", sayHello+`,"logprobs":true,"top_logprobs":2`),
	chatRow("chat top_logprobs stream", sayHello+`,"logprobs":true,"top_logprobs":2,"stream":true`),
	chatRow("chat prompt_logprobs", sayHello+`,"prompt_logprobs":1`),
	chatRow("chat stop", `"messages":[{"role":"user","content":"Tell me a askStory."}],"max_tokens":40,"stop":" a "`),
	chatRow("chat stop stream", `"messages":[{"role":"user","content":"Tell me a askStory."}],"max_tokens":40,"stop":" a ","stream":true`),
	chatRow("chat echo", `"messages":[{"role":"user","content":"Tell me a askStory."},{"role":"assistant","content":"Once upon"}],"max_tokens":4,"echo":true,"continue_final_message":true,"add_generation_prompt":false`),
	chatRow("chat echo stream", `"messages":[{"role":"user","content":"Tell me a askStory."},{"role":"assistant","content":"Once upon"}],"max_tokens":4,"echo":true,"continue_final_message":true,"add_generation_prompt":false,"stream":true`),
	chatRow("chat continue", `"messages":[{"role":"user","content":"Tell me a askStory."},{"role":"assistant","content":"Once upon"}],"max_tokens":4,"continue_final_message":true,"add_generation_prompt":false`),
	chatRow("chat without generation prompt", sayHello+`,"add_generation_prompt":false`),
	chatRow("chat return_token_ids", sayHello+`,"return_token_ids":true`),
	chatRow("chat return_token_ids stream", sayHello+`,"return_token_ids":true,"stream":true`),
	chatRow("chat return_tokens_as_token_ids", sayHello+`,"logprobs":true,"top_logprobs":1,"return_tokens_as_token_ids":true`),
	chatRow("chat name", `"messages":[{"role":"user","name":"Ann","content":"Tell me a askStory."}],"max_tokens":8`),
	chatRow("chat tools none", sayHello+`,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}],"tool_choice":"none"`),
	chatRow("chat tool turns", `"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"}],"max_tokens":4`),
	chatRow("chat request_id", sayHello+`,"request_id":"mine"`),
	chatRow("chat response_format text", sayHello+`,"response_format":{"type":"text"}`),
	chatRow("chat unknown field", sayHello+`,"no_such_field":1`),
	chatRow("chat truncate_prompt_tokens", sayHello+`,"truncate_prompt_tokens":4`),

	// Chat that is refused.
	chatRow("chat no messages", `"max_tokens":8`),
	chatRow("chat empty messages", `"messages":[],"max_tokens":8`),
	chatRow("chat no role", `"messages":[{"content":"Hi"}],"max_tokens":8`),
	chatRow("chat content number", `"messages":[{"role":"user","content":5}],"max_tokens":8`),
	chatRow("chat part unknown", `"messages":[{"role":"user","content":[{"type":"hologram","hologram":"x"}]}],"max_tokens":8`),
	chatRow("chat part image", `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1:9/a.png"}}]}],"max_tokens":8`),
	chatRow("chat top_logprobs alone", sayHello+`,"top_logprobs":2`),
	chatRow("chat top_logprobs 1000", sayHello+`,"logprobs":true,"top_logprobs":1000`),
	chatRow("chat top_logprobs -1", sayHello+`,"logprobs":true,"top_logprobs":-1`),
	chatRow("chat both generation prompts", sayHello+`,"add_generation_prompt":true,"continue_final_message":true`),
	chatRow("chat continue a user", sayHello+`,"add_generation_prompt":false,"continue_final_message":true`),
	chatRow("chat template", sayHello+`,"chat_template":"{{ messages }}"`),
	chatRow("chat tool_choice auto", sayHello+`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto"`),
	chatRow("chat tool_choice required", sayHello+`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"`),
	chatRow("chat tool_choice without tools", sayHello+`,"tool_choice":"required"`),
	chatRow("chat stream_options alone", sayHello+`,"stream_options":{"include_usage":true}`),
	chatRow("chat max_tokens too large", `"messages":[{"role":"user","content":"Hi"}],"max_tokens":1000000`),
	chatRow("chat prompt_logprobs stream", sayHello+`,"prompt_logprobs":1,"stream":true`),
	chatRow("chat temperature text", sayHello+`,"temperature":"hot"`),
	chatRow("chat seven errors", `"messages":5,"max_tokens":"a","n":"b","stream":"c","top_p":"d","seed":"e","stop":5`),
	{name: "chat other model", path: pathChat, body: `{"model":"other",` + sayHello + `}`},
	{name: "chat broken JSON", path: pathChat, body: `{"messages":`},

	// The other routes.
	{name: "models", method: "GET", path: "/v1/models"},
	{name: "health", method: "GET", path: "/health"},
	{name: "ping", method: "GET", path: "/ping"},
	{name: "ping POST", path: "/ping", body: `{}`},
	{name: "no such route", method: "GET", path: "/v1/nothing"},
	{name: "tokenize", path: "/tokenize", body: `{"model":"builtin","prompt":"Once upon a time"}`},
	{name: "tokenize strings", path: "/tokenize", body: `{"prompt":"Once upon a time","return_token_strs":true}`},
	{name: "tokenize without special tokens", path: "/tokenize", body: `{"prompt":"Once upon a time","add_special_tokens":false}`},
	{name: "tokenize chat", path: "/tokenize", body: `{"messages":[{"role":"user","content":"Hi"}]}`},
	{name: "tokenize chat without generation prompt", path: "/tokenize", body: `{"messages":[{"role":"user","content":"Hi"}],"add_generation_prompt":false}`},
	{name: "tokenize nothing", path: "/tokenize", body: `{}`},
	{name: "detokenize", path: "/detokenize", body: `{"model":"builtin","tokens":[40,41,42]}`},
	{name: "detokenize beyond", path: "/detokenize", body: `{"tokens":[100000]}`},
	{name: "detokenize text", path: "/detokenize", body: `{"tokens":"abc"}`},
	{name: "render completion", path: "/v1/completions/render", body: `{"model":"builtin","temperature":0,` + askStory + `}`},
	{name: "render chat", path: "/v1/chat/completions/render", body: `{"model":"builtin","temperature":0,` + sayHello + `}`},
	{name: "generate", path: "/inference/v1/generate", body: `{"token_ids":[5,6,7,8],"sampling_params":{"temperature":0,"max_tokens":4}}`},
	{name: "generate without tokens", path: "/inference/v1/generate", body: `{"sampling_params":{"max_tokens":4}}`},
}

// with sends a header too.
func (r parityRequest) with(key, value string) parityRequest {
	r.header = map[string]string{key: value}
	return r
}
