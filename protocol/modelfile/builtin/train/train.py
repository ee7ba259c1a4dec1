"""Trains the builtin model: a small Llama on a book of fairy tales.

    python train.py TEXT OUT [--steps N] [--minutes M] [--resume DIR]

TEXT is a UTF-8 file of tales with `<|endoftext|>` between them. OUT becomes an
ordinary Hugging Face directory (config.json, generation_config.json,
tokenizer.json, tokenizer_config.json, model.safetensors in BF16).

The last 5 % of the file's bytes are held out: neither the tokenizer nor the
model sees them. Three quarters of what the model is trained on is plain text,
one quarter is conversations cut from the same tales and rendered by the chat
template: the user opens a passage or asks for a tale, the assistant tells a
paragraph or so and ends with the eos token. So replies end by themselves.

The text is small and every row is seen some tens of times: what holds
overfitting back is dropout and weight decay. Short rows first (cheap), rows of
the full context last; the weights kept are the best of the averaged ones by
held-out loss, measured after rounding to BF16.

Every random choice comes from the seed. On another machine or thread count sums
differ in their last bits, so a rerun gives the same kind of model, not the same
bits.
"""

import argparse
import copy
import json
import math
import random
import re
import time
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import nn

SEED = 20240612

# Shape of the model. Names are those of config.json.
VOCAB = 2048
HIDDEN = 192
LAYERS = 6
INTERMEDIATE = 448
HEADS = 6
KV_HEADS = 2
HEAD_DIM = 32
CONTEXT = 1024
ROPE_THETA = 10000.0
NORM_EPS = 1e-5

# Training.
BATCH_TOKENS = 4096
SHORT_ROW = 256  # tokens a row until LONG_FROM, CONTEXT after it
LONG_FROM = 0.7  # share of the steps
CHAT_SHARE = 0.25
DROPOUT = 0.1
MUON_RATE = 0.02  # weight matrices
ADAM_RATE = 3e-3  # embedding and norms
WEIGHT_DECAY = 0.1
WARMUP = 50  # steps
EMA = 0.99
EVAL_EVERY = 100  # steps

END = "<|endoftext|>"
ROLES = {"system": "<|system|>", "user": "<|user|>", "assistant": "<|assistant|>"}

# Roles other than these three speak as the user.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'system' %}<|system|>{{ message.content }}"
    "{% elif message.role == 'assistant' %}<|assistant|>{{ message.content }}<|endoftext|>"
    "{% else %}<|user|>{{ message.content }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


# --- Text -------------------------------------------------------------------


def read_tales(path):
    """Returns (train, held): two lists of tales, the second from the last 5 %."""
    raw = Path(path).read_bytes()
    cut = len(raw) * 95 // 100
    return [clean(part) for part in (raw[:cut], raw[cut:])]


def clean(raw):
    """Normalises one part of the file and splits it into tales.

    The file is not hard-wrapped: a line is a paragraph or a line of verse. What
    hurts is UTF-8 that was read as Latin-1 once (repaired), a translators'
    notice in place of some tales (dropped), and paragraphs now one, now two
    newlines apart (always two; lines of verse stay one apart).
    """
    text = raw.decode("utf-8")
    text = re.sub(r"[\u00c0-\u00ff][\u0080-\u00bf]+", repair, text)
    text = text.replace("\u2013", "-").replace("\u201a", ",").replace("\u00e2", "")
    tales = []
    for tale in text.split(END):
        if "grimmstories.com" in tale:
            continue
        lines = [re.sub(r"[ \t]+", " ", line).strip() for line in tale.split("\n")]
        tale = re.sub(r"\n{2,}", "\n\n", "\n".join(lines)).strip()
        tale = re.sub(r"(?<=[^\n]{90})\n(?=[^\n])|(?<=[^\n])\n(?=[^\n]{90})", "\n\n", tale)
        if tale:
            tales.append(tale)
    return tales


def repair(match):
    try:
        return match.group().encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return match.group()


def train_tokenizer(tales):
    """Byte-level BPE as GPT-2's: all 256 bytes are in, nothing is unknown."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[END, *ROLES.values()],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(tales, trainer)
    assert tokenizer.get_vocab_size() == VOCAB
    return tokenizer


# --- Conversations ----------------------------------------------------------

SYSTEMS = [
    "You are a storyteller.",
    "You tell fairy tales.",
    "You are a helpful assistant.",
    "You are a teller of old tales. Be brief.",
]
ABOUT = [
    "Tell me a story about {a} {x}.",
    "Tell me about {a} {x}.",
    "Tell me about the {x}.",
    "Tell a tale of {a} {x}.",
    "Write a story about {a} {x}.",
    "Write a short fairy tale with {a} {x} in it.",
    "A story about {a} {x}, please.",
    "Do you know the tale of the {x}?",
    "Who was the {x}?",
]
ANYTHING = [
    "Tell me a story.",
    "Tell me a fairy tale.",
    "Write a story.",
    "Tell me something.",
    "Once upon a time",
    "Hello!",
    "Hello",
    "Hi",
    "Good day!",
    "Say something.",
]
NOT_ASKED = {"day", "evening", "time", "latter", "other", "children", "people", "Jew"}
ONWARD = ["Go on.", "And then?", "What happened next?", "Continue.", "Tell me more.", "And what then?"]

SENTENCE = re.compile(r"\S.*?(?:[.!?][\"')]*(?=\s|$)|$)", re.S)
NOUN = re.compile(r"\b(?:an?|the|an? (?:old|poor|rich|young|little|great)) ([A-Za-z][a-z]{2,})\b")
ACTOR = re.compile(r"\bthe ([A-Za-z][a-z]{2,}) (?:said|answered|went|came|thought|saw|cried|took|replied)\b")


class Conversations:
    """Cuts conversations out of tales, for ever and each time otherwise."""

    def __init__(self, tales, rng):
        self.rng = rng
        self.tales = [t for t in tales if len(t) > 800]
        self.sizes = [len(t) for t in self.tales]
        self.starts = [[m.start() for m in SENTENCE.finditer(t)] + [len(t)] for t in self.tales]
        counts = Counter(w for t in tales for w in ACTOR.findall(t))
        self.actors = {w for w, n in counts.items() if n >= 3 and w[-1] != "s"} - NOT_ASKED

    def next(self):
        """Returns the messages of one conversation: (role, content) pairs."""
        rng = self.rng
        n = rng.choices(range(len(self.tales)), self.sizes)[0]
        tale, starts = self.tales[n], self.starts[n]
        first = 0 if rng.random() < 0.3 else rng.randrange(len(starts) - 1)
        messages = []
        if rng.random() < 0.2:
            messages.append(("system", rng.choice(SYSTEMS)))
        ask, at = self.opening(tale, starts, first)
        while True:
            end = self.stop(tale, starts, at)
            reply = tale[at:end].strip(" -\n")
            if not reply:
                break
            messages += [("user", ask), ("assistant", reply)]
            ask, at = rng.choice(ONWARD), end
            if rng.random() < 0.6 or at >= starts[-2]:
                break
        return messages

    def opening(self, tale, starts, first):
        """Returns what the user says and where in the tale the reply begins."""
        rng, begin = self.rng, starts[first]
        kind = rng.random()
        if kind < 0.4:
            begin = starts[0] if rng.random() < 0.5 else tale.rfind("\n", 0, begin) + 1
            named = [w for w in NOUN.findall(tale[begin : begin + 300]) if w in self.actors]
            if named:
                x = rng.choice(named[:3])
                a = "an" if x[0] in "aeiouAEIOU" else "a"
                return rng.choice(ABOUT).format(a=a, x=x), begin
            begin = starts[first]
        if kind < 0.5:
            return rng.choice(ANYTHING), starts[0]
        end = starts[min(first + rng.choice((1, 1, 2)), len(starts) - 2)]
        words = tale[begin:end].split(" ")
        if rng.random() < 0.2 and len(words) > 6:
            cut = " ".join(words[: rng.randrange(3, len(words))])
            return cut.strip(), begin + len(cut)
        return tale[begin:end].strip(), end

    def stop(self, tale, starts, at):
        """Returns where a reply from at ends: a paragraph's end, or outside quotes."""
        low = at + self.rng.randrange(200, 700)
        best = None
        for start in starts:
            if start < low:
                continue
            if tale[start - 1 : start] == "\n" or start == len(tale):
                return start
            if best is None and tale.count('"', at, start) % 2 == 0:
                best = start
            if start > low + 300 and best is not None:
                return best
        return best or len(tale)


def render(messages):
    """The chat template's text, without generation prompt."""
    return "".join(ROLES[r] + c + (END if r == "assistant" else "") for r, c in messages)


# --- Rows -------------------------------------------------------------------


class Rows:
    """Batches of rows [rows, length + 1] of token ids; the last column is a target."""

    def __init__(self, tokenizer, tales, seed):
        self.rng = random.Random(seed)
        self.tokenizer = tokenizer
        self.plain = encode_tales(tokenizer, tales)
        self.chats = Conversations(tales, self.rng)
        self.spare = []
        self.order = []

    def batch(self, rows, length):
        return torch.stack([self.row(length + 1) for _ in range(rows)])

    def row(self, size):
        if self.rng.random() < CHAT_SHARE:
            return self.chat_row(size)
        if not self.order or self.order[0][1] != size:
            self.order = self.epoch(size)
        at, _ = self.order.pop()
        return self.plain[at : at + size]

    def epoch(self, size):
        """Start of every row of one pass, from a random phase, shuffled."""
        order = [(i, size) for i in range(self.rng.randrange(size), len(self.plain) - size, size - 1)]
        self.rng.shuffle(order)
        return order

    def chat_row(self, size):
        ids = []
        while len(ids) < size:
            ids += self.tokenizer.encode(render(self.chats.next())).ids
        return torch.tensor(ids[:size])


def encode_tales(tokenizer, tales):
    """One run of ids: an eos token before each tale and after the last."""
    return torch.tensor(tokenizer.encode(END + "".join(t + END for t in tales)).ids)


# --- Model ------------------------------------------------------------------


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return F.rms_norm(x, (HIDDEN,), self.weight, NORM_EPS)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(HIDDEN, HEADS * HEAD_DIM, bias=False)
        self.k_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD_DIM, bias=False)
        self.v_proj = nn.Linear(HIDDEN, KV_HEADS * HEAD_DIM, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD_DIM, HIDDEN, bias=False)

    def forward(self, x, cos, sin):
        rows, length, _ = x.shape
        q = rotate(self.q_proj(x).view(rows, length, HEADS, HEAD_DIM), cos, sin)
        k = rotate(self.k_proj(x).view(rows, length, KV_HEADS, HEAD_DIM), cos, sin)
        v = self.v_proj(x).view(rows, length, KV_HEADS, HEAD_DIM)
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, dim=2) for t in (k, v))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(rows, length, -1))


def rotate(x, cos, sin):
    """Rope over halves, as transformers' Llama has it; x [rows, length, heads, dim]."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, INTERMEDIATE, bias=False)
        self.up_proj = nn.Linear(HIDDEN, INTERMEDIATE, bias=False)
        self.down_proj = nn.Linear(INTERMEDIATE, HIDDEN, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = RMSNorm()
        self.self_attn = Attention()
        self.post_attention_layernorm = RMSNorm()
        self.mlp = MLP()

    def forward(self, x, cos, sin):
        x = x + F.dropout(self.self_attn(self.input_layernorm(x), cos, sin), DROPOUT, self.training)
        return x + F.dropout(self.mlp(self.post_attention_layernorm(x)), DROPOUT, self.training)


class Llama(nn.Module):
    """LlamaForCausalLM with tied embeddings; parameter names are transformers'."""

    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = RMSNorm()
        frequency = ROPE_THETA ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
        angle = torch.outer(torch.arange(CONTEXT), frequency)[:, None, :]
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                depth = math.sqrt(2 * LAYERS) if name.endswith(("o_proj.weight", "down_proj.weight")) else 1
                nn.init.normal_(p, std=0.02 / depth)

    def forward(self, ids, targets):
        """ids, targets [rows, length]; returns the loss of each target in nats."""
        length = ids.shape[1]
        x = F.dropout(self.embed_tokens(ids), DROPOUT, self.training)
        for layer in self.layers:
            x = layer(x, self.cos[:length], self.sin[:length])
        logits = F.linear(self.norm(x), self.embed_tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")


# --- Optimiser --------------------------------------------------------------


class Muon(torch.optim.Optimizer):
    """Momentum made orthogonal by five Newton-Schulz steps (Jordan 2024).

    Matrices of one shape go through the steps together.
    """

    def __init__(self, params, lr, weight_decay, momentum=0.95):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shapes = {}
            for p in group["params"]:
                shapes.setdefault(tuple(p.shape), []).append(p)
            for shape, params in shapes.items():
                self.step_shape(group, shape, params)

    def step_shape(self, group, shape, params):
        updates = []
        for p in params:
            m = self.state[p].setdefault("m", torch.zeros_like(p))
            m.lerp_(p.grad, 1 - group["momentum"])
            updates.append(p.grad.lerp(m, group["momentum"]))
        scale = max(1, shape[0] / shape[1]) ** 0.5
        for p, u in zip(params, orthogonal(torch.stack(updates))):
            p.mul_(1 - group["lr"] * group["weight_decay"])
            p.add_(u, alpha=-group["lr"] * scale)


def orthogonal(g):
    x = g.mT if g.shape[-2] > g.shape[-1] else g
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        s = x @ x.mT
        x = 3.4445 * x + (-4.7750 * s + 2.0315 * s @ s) @ x
    return x.mT if g.shape[-2] > g.shape[-1] else x


def rate(step, progress):
    """Share of the full learning rate: a linear warm-up over a cosine to zero.

    progress runs from 0 to 1 over the training.
    """
    return min(1, (step + 1) / WARMUP) * (0.5 + 0.5 * math.cos(math.pi * progress))


# --- Measure and keep -------------------------------------------------------


@torch.no_grad()
def bits_per_byte(model, ids, numBytes):
    """Bits per byte of held-out tales, as the model predicts them.

    Windows of CONTEXT tokens move by half a window: each token counts once,
    with at least half a window before it where the text has that much. The eos
    tokens between tales cost bits but count no bytes.
    """
    model.eval()
    nats, done, half = 0.0, 0, CONTEXT // 2
    for begin in range(0, len(ids) - 1, half):
        window = ids[begin : begin + CONTEXT + 1]
        losses = model(window[None, :-1], window[None, 1:])
        nats += losses[done - begin :].sum().item()
        done = begin + len(losses)
        if done >= len(ids) - 1:
            break
    model.train()
    return nats / math.log(2) / numBytes


def rounded(model):
    """A copy of model whose weights are BF16 numbers, kept as float32."""
    copied = copy.deepcopy(model)
    for p in copied.parameters():
        p.data = p.data.bfloat16().float()
    return copied


def write(out, tokenizer, state):
    out.mkdir(parents=True, exist_ok=True)
    end = tokenizer.token_to_id(END)
    dump(out / "config.json", {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rope_theta": ROPE_THETA,
        "rms_norm_eps": NORM_EPS,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": end,
        "eos_token_id": end,
        "torch_dtype": "bfloat16",
    })
    dump(out / "generation_config.json", {
        "bos_token_id": end,
        "eos_token_id": end,
        "do_sample": True,
        "temperature": 0.7,
        "top_p": 0.95,
    })
    dump(out / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": END,
        "eos_token": END,
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT,
        "chat_template": CHAT_TEMPLATE,
    })
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    tensors = {f"model.{name}": p.bfloat16().contiguous() for name, p in state.items()}
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})


def dump(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


# --- Train ------------------------------------------------------------------


def train(args):
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)

    tales, held = read_tales(args.text)
    tokenizer = train_tokenizer(tales)
    rows = Rows(tokenizer, tales, args.seed)
    held_ids = encode_tales(tokenizer, held)
    held_bytes = sum(len(t.encode()) for t in held)
    print(f"train {len(rows.plain)} tokens, held out {len(held_ids)} tokens, {held_bytes} bytes")

    model = Llama()
    if args.resume:
        tensors = load_file(args.resume / "model.safetensors")
        model.load_state_dict({k.removeprefix("model."): v.float() for k, v in tensors.items()})
    average = copy.deepcopy(model)
    print(f"{sum(p.numel() for p in model.parameters())} parameters")

    matrices = [p for p in model.layers.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimisers = [
        Muon(matrices, lr=MUON_RATE, weight_decay=WEIGHT_DECAY),
        torch.optim.AdamW([
            {"params": [model.embed_tokens.weight], "weight_decay": WEIGHT_DECAY},
            {"params": vectors, "weight_decay": 0.0},
        ], lr=ADAM_RATE, betas=(0.9, 0.95)),
    ]
    full = [[g["lr"] for g in o.param_groups] for o in optimisers]

    best, begun, shown, step, progress = math.inf, time.time(), 0.0, 0, 0.0
    while progress < 1:
        length = SHORT_ROW if progress < LONG_FROM else CONTEXT
        batch = rows.batch(BATCH_TOKENS // length, length)
        loss = model(batch[:, :-1], batch[:, 1:]).mean()
        loss.backward()
        for optimiser, rates in zip(optimisers, full):
            for group, r in zip(optimiser.param_groups, rates):
                group["lr"] = r * rate(step, progress)
            optimiser.step()
            optimiser.zero_grad()
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters()):
                a.lerp_(p, 1 - min(EMA, (step + 1) / (step + 10)))
        shown += (loss.item() - shown) * max(0.02, 1 / (step + 1))
        step += 1
        progress = max(step / args.steps, (time.time() - begun) / 60 / args.minutes)
        if step % EVAL_EVERY and progress < 1:
            continue
        kept = rounded(average)
        bits = bits_per_byte(kept, held_ids, held_bytes)
        print(f"step {step}: loss {shown:.3f} nats/token, held out {bits:.4f} bits/byte, "
              f"{time.time() - begun:.0f} s", flush=True)
        if bits < best:
            best = bits
            write(args.out, tokenizer, dict(kept.named_parameters()))
    print(f"kept: held out {best:.4f} bits/byte")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trains the builtin model.")
    parser.add_argument("text", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--minutes", type=float, default=math.inf,
                        help="finish by then, with fewer steps: for a busy machine")
    parser.add_argument("--resume", type=Path, help="start from this directory's weights, "
                        "with a schedule of its own; give another seed, for other rows")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--threads", type=int, default=2)
    train(parser.parse_args())
