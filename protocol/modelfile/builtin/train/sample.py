"""Prints what a model directory writes, with its own generation defaults.

    python sample.py DIR [--temperature T] [--top-p P]
"""

import argparse

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PROMPTS = [
    "There was once a",
    [{"role": "user", "content": "Tell me a story about a fox."}],
    [{"role": "system", "content": "You are a storyteller."},
     {"role": "user", "content": "A poor tailor went into the forest, and there he met an old woman."}],
]


def main(args):
    model = AutoModelForCausalLM.from_pretrained(args.dir, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(args.dir)
    given = {"temperature": args.temperature, "top_p": args.top_p}
    given = {k: v for k, v in given.items() if v is not None}
    for prompt in PROMPTS:
        if not isinstance(prompt, str):
            prompt = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        torch.manual_seed(args.seed)
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=args.tokens,
                             pad_token_id=model.config.eos_token_id, **given)
        print(prompt, "=>", tokenizer.decode(out[0, ids.shape[1]:]), "\n", sep="")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Prints samples of a model directory.")
    parser.add_argument("dir")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--top-p", type=float)
    main(parser.parse_args())
