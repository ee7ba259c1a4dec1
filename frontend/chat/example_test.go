package chat_test

import (
	"fmt"

	"govllm/frontend/chat"
	"govllm/frontend/chat/jinja"
)

func Example() {
	config := []byte(`{"chat_template": "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"}`)
	set, err := chat.FindTemplate(config, nil)
	if err != nil {
		panic(err)
	}
	message := jinja.NewDict()
	message.Set("role", jinja.Str("user"))
	message.Set("content", jinja.Str("Hello"))
	prompt, err := set.For(false).Render(chat.Input{
		Messages:            []jinja.Value{message},
		AddGenerationPrompt: true,
		BOSToken:            "<s>",
	})
	fmt.Printf("%q %v\n", prompt, err)
	// Output: "<s>[user] Hello\n[assistant] " <nil>
}
