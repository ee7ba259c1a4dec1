package jinja_test

import (
	"errors"
	"fmt"

	"govllm/frontend/chat/jinja"
)

func Example() {
	t, err := jinja.Parse(`{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}{{ tools | tojson }}`)
	if err != nil {
		panic(err)
	}
	vars, err := jinja.FromJSON([]byte(`{
		"messages": [{"role": "user", "content": " Hi "}],
		"tools": [{"name": "weather", "limit": 1e3, "strict": true}]
	}`))
	if err != nil {
		panic(err)
	}
	text, err := t.Render(vars.(*jinja.Dict), jinja.Options{})
	fmt.Println(text, err)
	// Output: <user>Hi[{"name": "weather", "limit": 1000.0, "strict": true}] <nil>
}

func ExampleError() {
	t, err := jinja.Parse("{% if not messages %}\n{{ raise_exception('No messages') }}{% endif %}")
	if err != nil {
		panic(err)
	}
	_, err = t.Render(jinja.NewDict(), jinja.Options{})
	var e *jinja.Error
	fmt.Println(errors.As(err, &e), e.Kind, e.Line, e.Msg)
	// Output: true raised 2 No messages
}
