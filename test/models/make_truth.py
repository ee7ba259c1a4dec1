"""Makes the truth beside this file: what transformers makes of two GGUF files.

    python make_truth.py DIR TEXT [NAME ...]

DIR holds the GGUF files (fetch.sh gets them), TEXT is a long English text. Each
file is loaded as transformers does it, dequantised to float32, and asked for
the greedy continuation of ten prompts, and, over the first tokens of TEXT in
windows, for the most likely next token at each position and the perplexity.
models_test.go says what that is compared with. Versions are in the JSON.
"""

import base64
import hashlib
import json
import platform
import sys
import zlib
from importlib.metadata import version
from pathlib import Path

import numpy
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = Path(__file__).parent
FILES = {
    "smollm2-135m-instruct-q4_1": "SmolLM2-135M-Instruct.Q4_1.gguf",
    "gemma-3-270m-q4_k_m": "gemma-3-270m-q4_k_m.gguf",
}
PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a forest far away,",
    "def fibonacci(n):\n    ",
    "Water boils at a temperature of",
    "Dear Sir or Madam,\n\nI am writing to",
    "The three primary colours are",
    "In 1969, the first human",
    "Ingredients for a simple bread:\n-",
    "Q: What is the largest planet of the solar system?\nA:",
    "Die Katze sitzt auf",
]
GREEDY = 32
TOKENS = 20_000  # of the text
WINDOW = 1000  # tokens of the text that are computed together
PIECE = 250  # rows of logits at once


def prompts(model, tokenizer):
    for text in PROMPTS:
        ids = tokenizer(text)["input_ids"]
        out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                             do_sample=False, min_new_tokens=GREEDY, max_new_tokens=GREEDY, eos_token_id=None,
                             pad_token_id=0, return_dict_in_generate=True, output_logits=True)
        top = torch.stack([row[0] for row in out.logits]).topk(2).values
        greedy = out.sequences[0, len(ids):].tolist()
        yield {"text": text, "ids": ids, "greedy": greedy, "greedy_text": tokenizer.decode(greedy),
               "leads": [round(x, 5) for x in (top[:, 0] - top[:, 1]).tolist()]}


def over_text(model, tokenizer, path):
    # Words are split alike wherever the text ends later.
    text = path.read_text(encoding="utf-8")[: 8 * TOKENS]
    ids = tokenizer(text, add_special_tokens=False)["input_ids"][:TOKENS]
    start = tokenizer("", add_special_tokens=True)["input_ids"]
    best, loss = [], []
    for at in range(0, len(ids), WINDOW):
        window = torch.tensor([start + ids[at : at + WINDOW]])
        hidden = model.model(window).last_hidden_state[0]
        for i in range(0, len(hidden) - 1, PIECE):
            logits = model.lm_head(hidden[i : min(i + PIECE, len(hidden) - 1)])
            best.append(logits.argmax(-1))
            loss.append(torch.nn.functional.cross_entropy(
                logits, window[0, i + 1 : i + 1 + len(logits)], reduction="none").double())
        print(f"  {at + WINDOW} tokens, perplexity {torch.cat(loss).mean().exp():.4f}", flush=True)
    best = torch.cat(best).numpy().astype("<i4").tobytes()
    return {"file": path.name, "tokens": len(ids), "window": WINDOW, "start": start,
            "ids_sha256": hashlib.sha256(numpy.array(ids, "<i4").tobytes()).hexdigest(),
            "perplexity": round(torch.cat(loss).mean().exp().item(), 6),
            "most_likely": base64.b64encode(zlib.compress(best, 9)).decode()}


@torch.no_grad()
def main(folder, text, names):
    torch.set_num_threads(1)
    for name in names or FILES:
        print(name, flush=True)
        file = Path(folder) / FILES[name]
        model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file.name, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file.name)
        truth = {
            "made_with": {"python": platform.python_version(), "torch": torch.__version__,
                          "transformers": transformers.__version__, "gguf": version("gguf"),
                          "dtype": "float32"},
            "file": file.name,
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
            "prompts": list(prompts(model, tokenizer)),
            "text": over_text(model, tokenizer, Path(text)),
        }
        (HERE / "testdata").mkdir(exist_ok=True)
        (HERE / "testdata" / f"{name}.json").write_text(json.dumps(truth, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
