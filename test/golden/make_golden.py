"""Makes the golden truth beside this file with transformers, in float32.

    python make_golden.py [NAME ...]      # all of them without a name

Tiny random models (fixed seed) are written as Hugging Face directories, read
back by transformers from exactly those files, and asked for logits and greedy
text; the builtin model is read from protocol/modelfile/builtin. README.md gives
the format of golden.json.

"Equal greedy text" means something only where no step is a near tie, so prompts
are drawn until, at each of the 64 steps, the best logit leads the second by
more than MARGIN, and the text neither meets the eos token nor is one or two
tokens over and over.
"""

import base64
import json
import platform
import shutil
import sys
import tempfile
from pathlib import Path

import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, AutoTokenizer, Gemma2Config, Gemma3TextConfig,
                          LlamaConfig, MistralConfig, MixtralConfig, Phi3Config, Qwen2Config,
                          Qwen3Config, Qwen3MoeConfig, SmolLM3Config)

HERE = Path(__file__).parent
BUILTIN = HERE.parent.parent / "protocol" / "modelfile" / "builtin"
GREEDY = 64
MARGIN = 1e-3
DISTINCT = 8  # different tokens a greedy text has at least
EOS = 0

# Each: config, dtype of the file, number of shards, form of config.json
# ("classic" as most published models: torch_dtype, rope_theta, rope_scaling;
# "new" as transformers 5 saves: dtype, rope_parameters).
SMALL = dict(hidden_size=64, num_hidden_layers=2, max_position_embeddings=512,
             bos_token_id=EOS, eos_token_id=EOS)
# The later families are smaller yet, of three layers, so that kinds of layers
# can differ. Windows and original lengths lie within the prompts.
SMALLER = SMALL | dict(hidden_size=32, num_hidden_layers=3, vocab_size=160, intermediate_size=48,
                       num_attention_heads=2, num_key_value_heads=1, head_dim=16, pad_token_id=EOS)
SLIDING, FULL = "sliding_attention", "full_attention"
GEMMA = SMALLER | dict(layer_types=[SLIDING, SLIDING, FULL], sliding_window=32,
                       query_pre_attn_scalar=24)
TINY = {
    "tiny-llama-f32": (
        LlamaConfig(**SMALL, vocab_size=256, intermediate_size=64, num_attention_heads=2,
                    num_key_value_heads=1, head_dim=32, rope_theta=500000.0,
                    tie_word_embeddings=True, rms_norm_eps=1e-5),
        torch.float32, 1, "classic"),
    # Heads times head_dim is not the hidden size here.
    "tiny-llama-bf16": (
        LlamaConfig(**SMALL, vocab_size=288, intermediate_size=128, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=32, rope_theta=10000.0,
                    tie_word_embeddings=False, rms_norm_eps=1e-6),
        torch.bfloat16, 1, "new"),
    "tiny-llama-hd64": (
        LlamaConfig(**SMALL, vocab_size=256, intermediate_size=64, num_attention_heads=2,
                    num_key_value_heads=1, head_dim=64, rope_theta=10000.0,
                    tie_word_embeddings=True, rms_norm_eps=1e-5),
        torch.bfloat16, 1, "classic"),
    # Qwen2 names no head_dim: it is hidden_size / num_attention_heads.
    "tiny-qwen2-f16": (
        Qwen2Config(**SMALL, vocab_size=256, intermediate_size=128, num_attention_heads=2,
                    num_key_value_heads=1, rope_theta=1000000.0, tie_word_embeddings=False,
                    rms_norm_eps=1e-6, use_sliding_window=False),
        torch.float16, 1, "classic"),
    "tiny-qwen2-sharded": (
        Qwen2Config(**SMALL, vocab_size=300, intermediate_size=128, num_attention_heads=2,
                    num_key_value_heads=1, rope_theta=100000.0, tie_word_embeddings=True,
                    rms_norm_eps=1e-6, use_sliding_window=False),
        torch.bfloat16, 2, "new"),
    "tiny-llama3": (
        LlamaConfig(**SMALLER, tie_word_embeddings=True, rope_parameters=dict(
            rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
            high_freq_factor=4.0, original_max_position_embeddings=64)),
        torch.bfloat16, 1, "classic"),
    "tiny-mistral": (
        MistralConfig(**SMALLER, sliding_window=48, tie_word_embeddings=False),
        torch.bfloat16, 1, "classic"),
    "tiny-smollm3": (
        SmolLM3Config(**SMALLER, no_rope_layers=[1, 0, 1], rope_parameters=dict(
            rope_type="default", rope_theta=2000000.0)),
        torch.bfloat16, 1, "new"),
    "tiny-qwen3": (
        Qwen3Config(**SMALLER | dict(num_attention_heads=4), tie_word_embeddings=True,
                    rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                                         original_max_position_embeddings=128)),
        torch.bfloat16, 1, "new"),
    "tiny-qwen3moe": (
        Qwen3MoeConfig(**SMALLER | dict(num_attention_heads=4), tie_word_embeddings=True,
                       num_experts=6, num_experts_per_tok=3, moe_intermediate_size=16,
                       norm_topk_prob=True, rope_parameters=dict(
                           rope_type="default", rope_theta=10000.0)),
        torch.bfloat16, 1, "new"),
    "tiny-mixtral": (
        MixtralConfig(**SMALLER | dict(intermediate_size=24), num_local_experts=4,
                      num_experts_per_tok=2, tie_word_embeddings=True),
        torch.bfloat16, 1, "classic"),
    # No head_dim here: 12 of 32 / 2 values turn.
    "tiny-phi3": (
        Phi3Config(**{k: v for k, v in SMALLER.items() if k != "head_dim"}
                   | dict(max_position_embeddings=2048), original_max_position_embeddings=512,
                   tie_word_embeddings=False, partial_rotary_factor=0.75, rope_parameters=dict(
                       rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
                       short_factor=[1.0, 1.1, 1.5, 2.0, 2.5, 3.0],
                       long_factor=[1.0, 2.0, 4.0, 8.0, 16.0, 32.0])),
        torch.bfloat16, 1, "classic"),
    "tiny-gemma2": (
        Gemma2Config(**GEMMA, attn_logit_softcapping=2.0, final_logit_softcapping=5.0),
        torch.bfloat16, 1, "new"),
    "tiny-gemma3": (
        Gemma3TextConfig(**GEMMA, rope_parameters={
            FULL: dict(rope_type="linear", rope_theta=1000000.0, factor=8.0),
            SLIDING: dict(rope_type="default", rope_theta=10000.0)}),
        torch.bfloat16, 1, "classic"),
}
TINY_PROMPTS = {"one": 1, "short": 7, "block": 33, "long": 150, "far": 440}

# The builtin's prompts: the first of each list that fits is taken.
BUILTIN_TEXTS = {
    "short": ["There was once a", "Once upon a time there was", "The old woman said"],
    "tale": [
        "There was once on a time a King who had three daughters, and the youngest was so "
        "beautiful that the sun itself wondered when it shone in her face.",
        "A miller had four sons. One day he said to them,",
        "The wolf knocked at the door of the little house and cried,",
    ],
}
BUILTIN_CHATS = [
    [("system", "You are a storyteller."), ("user", "Tell me a story about a fox.")],
    [("user", "Tell me a story about a wolf.")],
    [("user", "Once upon a time"), ("assistant", "there was a poor tailor."), ("user", "Go on.")],
    [("user", "Tell me a story about a king.")],
]
BUILTIN_LONG = 900  # tokens
ENCODED = [
    "Once upon a time, there wasn't a King!",
    "  two spaces,\ttab\n\n\nthree newlines  ",
    "don't I'll you've we're it's THEY'LL",
    "naïve Größe – “quotes” … €5",
    "日本語のテキスト",
    "🦊👩‍👩‍👧‍👦e\u0301",
    "x = 3.14159 * (1234567890 + 42)",
    "<|user|>Hello<|assistant|>Good day.<|endoftext|>",
    "<|user |> <|endoftext|",
    "\u0000\u0007\u200b\ufeff\ufffd",
    "",
]


# --- Tiny models ------------------------------------------------------------


def make_tiny(name, config, dtype, shards, form):
    """Writes HERE/name as a Hugging Face directory with random weights."""
    torch.manual_seed(sum(name.encode()))
    config.dtype = torch.float32
    model = AutoModelForCausalLM.from_config(config)
    config.architectures = [type(model).__name__]
    config.dtype = dtype
    for key, p in model.named_parameters():
        if key.endswith("norm.weight"):
            torch.nn.init.normal_(p, mean=1.0, std=0.2)
        elif key.endswith("bias"):
            torch.nn.init.normal_(p, std=0.5)
        else:  # wide enough that attention and logits are far from uniform
            torch.nn.init.normal_(p, std=1.5 / p.shape[-1 if p.dim() == 3 else 1] ** 0.5)

    out = HERE / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    if hasattr(config, "num_experts_per_tok"):  # each expert's tensors by themselves
        model.to(dtype).save_pretrained(out)
        write_config(out / "config.json", config, form)
        (out / "generation_config.json").unlink()
        return
    write_config(out / "config.json", config, form)
    tensors = {k: v.to(dtype).contiguous() for k, v in model.state_dict().items()
               if not (config.tie_word_embeddings and k == "lm_head.weight")}
    write_weights(out, tensors, shards)


def write_config(path, config, form):
    stated = ("model_type", "vocab_size", "hidden_act", "rms_norm_eps", "tie_word_embeddings")
    values = config.to_diff_dict() | {k: getattr(config, k) for k in stated if hasattr(config, k)}
    values["dtype"] = str(config.dtype).removeprefix("torch.")
    if form == "classic":
        values["torch_dtype"] = values.pop("dtype")
        rope = values.pop("rope_parameters")
        if FULL in rope:
            values["rope_local_base_freq"] = rope[SLIDING]["rope_theta"]
            rope = rope[FULL]
        rope = dict(rope)
        values["rope_theta"] = rope.pop("rope_theta")
        rope.pop("partial_rotary_factor", None)  # is in values
        if rope["rope_type"] != "default":
            values["rope_scaling"] = rope
        del values["transformers_version"]
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")


def write_weights(out, tensors, shards):
    if shards == 1:
        save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(tensors)
    weight_map = {}
    for i in range(shards):
        part = names[len(names) * i // shards : len(names) * (i + 1) // shards]
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        save_file({k: tensors[k] for k in part}, out / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": weight_map}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def tiny_golden(name):
    model = load(HERE / name)
    rng = torch.Generator().manual_seed(sum(name.encode()) + 1)
    cases = []
    for label, length in TINY_PROMPTS.items():
        def draws():
            for _ in range(1000):
                yield torch.randint(1, model.config.vocab_size, (length,), generator=rng).tolist()
        cases.append(first_fit(model, label, draws(), all_positions=label == "short"))
    write_golden(name, {"cases": cases})


# --- The builtin ------------------------------------------------------------


def builtin_golden(name):
    with tempfile.TemporaryDirectory() as folder:
        for file in [*BUILTIN.glob("*.json"), BUILTIN / "weights" / "model.safetensors"]:
            shutil.copy(file, folder)
        model, tokenizer = load(folder), AutoTokenizer.from_pretrained(folder)

    def encode(text):
        return tokenizer(text)["input_ids"]

    def render(turns):
        messages = [{"role": r, "content": c} for r, c in turns]
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    rendered = {render(turns): turns for turns in BUILTIN_CHATS}
    cases = [first_fit(model, label, map(encode, texts), all_positions=label == "short")
             for label, texts in BUILTIN_TEXTS.items()]
    cases.append(first_fit(model, "chat", map(encode, rendered)))
    cases.append(first_fit(model, "long", (long_prompt(model, s) for s in range(100))))
    for case in cases:
        case["text"] = tokenizer.decode(case["prompt"])
        case["greedy_text"] = tokenizer.decode(case["greedy"])
        if case["text"] in rendered:
            case["messages"] = [{"role": r, "content": c} for r, c in rendered[case["text"]]]
    encodings = [{"text": t, "ids": encode(t), "decoded": tokenizer.decode(encode(t))} for t in ENCODED]
    write_golden(name, {"cases": cases, "encodings": encodings})


def long_prompt(model, seed):
    """A tale of the model's own, BUILTIN_LONG tokens from the eos token on."""
    torch.manual_seed(seed)
    ids = torch.tensor([[EOS]])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=0.8,
                         top_k=0, top_p=0.95, min_new_tokens=BUILTIN_LONG - 1,
                         max_new_tokens=BUILTIN_LONG - 1, pad_token_id=EOS)
    return out[0].tolist()


# --- Golden -----------------------------------------------------------------


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                attn_implementation="eager").eval()


@torch.no_grad()
def first_fit(model, label, prompts, all_positions=False):
    """The first of prompts whose greedy text is clear, as a case of golden.json."""
    for prompt in prompts:
        greedy = continue_greedily(model, prompt)
        if EOS in greedy or len(set(greedy)) < DISTINCT:
            continue
        logits = model(torch.tensor([prompt + greedy[:-1]])).logits[0]
        top = logits[len(prompt) - 1 :].topk(2)
        margin = (top.values[:, 0] - top.values[:, 1]).min().item()
        same = top.indices[:, 0].tolist() == greedy
        if margin <= MARGIN or not same:
            continue
        positions = list(range(len(prompt))) if all_positions else [len(prompt) - 1]
        print(f"  {label}: {len(prompt)} tokens, margin {margin:.4f}, {len(set(greedy))} distinct")
        return {
            "name": label,
            "prompt": prompt,
            "positions": positions,
            "logits": base64.b64encode(logits[positions].numpy().astype("<f4").tobytes()).decode(),
            "greedy": greedy,
            "min_margin": round(margin, 6),
        }
    raise SystemExit(f"{label}: no prompt has a clear greedy text")


def continue_greedily(model, prompt):
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                         max_new_tokens=GREEDY, pad_token_id=EOS)
    return out[0, len(prompt) :].tolist()


def write_golden(name, content):
    made = {
        "dtype": "float32",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
    }
    out = HERE / name
    out.mkdir(exist_ok=True)
    (out / "golden.json").write_text(
        json.dumps({"made_with": made, **content}, indent=1, ensure_ascii=True) + "\n")


def main(names):
    torch.set_num_threads(1)
    for name in names or [*TINY, "builtin"]:
        print(name)
        if name == "builtin":
            builtin_golden(name)
        else:
            make_tiny(name, *TINY[name])
            tiny_golden(name)


if __name__ == "__main__":
    main(sys.argv[1:])
