// Prints what pre-tokenizers and normalizers of the reference make of the first
// texts of corpus.json.gz: node components.mjs | gzip -9n > components.json.gz
//
// The package tokenizers@0.23.2 is taken from the working directory.
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import zlib from "node:zlib";

const { Tokenizer } = createRequire(path.join(process.cwd(), "x.js"))("tokenizers");
const here = path.dirname(new URL(import.meta.url).pathname);
const numTexts = 58; // the hand-made ones
const corpus = JSON.parse(zlib.gunzipSync(fs.readFileSync(path.join(here, "corpus.json.gz")))).slice(0, numTexts);

const camel = String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`;
const small = String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`;
const patterns = [
  // of models: DeepSeek V3 (three), GLM-4, Mistral, BLOOM
  String.raw`\p{N}{1,3}`,
  String.raw`[一-龥぀-ゟ゠-ヿ]+`,
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
  String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+|x`,
  String.raw`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`,
  String.raw`[^\r\n\p{L}\p{N}]?${camel}*${small}+|[^\r\n\p{L}\p{N}]?${camel}+${small}*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  String.raw` ?[^(\s|[.,!?…。，、।۔،])]+`,
  // of the dialect: sets, escapes, quantifiers, groups, empty matches
  String.raw`[\p{L}&&[^aeiou]]+`,
  String.raw`[a-c[x-z]]+|[^a-z\s[0-5]]`,
  String.raw`\w+`,
  String.raw`\W`,
  String.raw`\d{2,3}|\D{4}`,
  String.raw`\p{Nd}{,2}e?`,
  String.raw`\S+?[a-m]`,
  String.raw`(?:ha|h)++a|o{1,2}+`,
  String.raw`(?<=e)r|(?<!t) |(?=l)`,
  String.raw`\x41|\x{1F600}|\u0430|\t|\e|\a|\f|\v`,
  String.raw`\P{L}\p{^N}`,
  String.raw`(?i:[sk]|word|x)`,
  String.raw`.{3}`,
  String.raw`\p{Cn}|\p{Co}|\p{Cc}|\p{Cs}|\p{So}|\p{Cf}`,
  String.raw`x*`,
  String.raw`[\-\]\\^][-=][.-]`,
  String.raw`(?>h|ha)a|(e)(l)`,
  String.raw`[\s\S]{7}`,
];

const byteLevel = (use_regex, add_prefix_space) => ({ type: "ByteLevel", add_prefix_space, trim_offsets: true, use_regex });
const split = (pattern, behavior = "Isolated", invert = false) => ({ type: "Split", pattern, behavior, invert });
const chain = (...pretokenizers) => ({ type: "Sequence", pretokenizers: [...pretokenizers, byteLevel(false, false)] });

const preTokenizers = [byteLevel(true, false), byteLevel(true, true), byteLevel(false, true)];
for (const Regex of patterns) preTokenizers.push(chain(split({ Regex })));
for (const behavior of ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]) {
  for (const invert of [false, true]) {
    preTokenizers.push(chain(split({ Regex: String.raw`\p{N}|[aeiou]|\s\s` }, behavior, invert)));
  }
  preTokenizers.push(chain(split({ String: " " }, behavior), split({ String: "he" }, behavior)));
}
for (const individual_digits of [false, true]) preTokenizers.push(chain({ type: "Digits", individual_digits }));

const metaspace = (prepend_scheme, split) => ({ type: "Metaspace", replacement: "▁", prepend_scheme, split });
for (const scheme of ["always", "first", "never"]) {
  for (const split of [false, true]) {
    preTokenizers.push(chain(metaspace(scheme, split)), chain({ type: "WhitespaceSplit" }, metaspace(scheme, split)));
  }
}
for (const type of ["BertPreTokenizer", "Whitespace", "WhitespaceSplit"]) preTokenizers.push(chain({ type }));
for (const behavior of ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]) {
  preTokenizers.push(chain({ type: "Punctuation", behavior }));
}
preTokenizers.push(chain({ type: "CharDelimiterSplit", delimiter: "é" }));

// The charsmap of the small Unigram tokenizer.
const t5 = path.join(here, "small", "t5", "tokenizer.json");
const read = (file) => JSON.parse(fs.existsSync(file) ? fs.readFileSync(file) : zlib.gunzipSync(fs.readFileSync(file + ".gz")));
const precompiled = read(t5).normalizer.normalizers[0];

const bert = (clean_text, handle_chinese_chars, strip_accents, lowercase) => ({
  type: "BertNormalizer", clean_text, handle_chinese_chars, strip_accents, lowercase,
});
const sequence = (...normalizers) => ({ type: "Sequence", normalizers });
const normalizers = [
  { type: "NFC" },
  { type: "NFD" },
  { type: "Strip", strip_left: true, strip_right: false },
  { type: "Strip", strip_left: false, strip_right: true },
  { type: "Strip", strip_left: true, strip_right: true },
  { type: "Prepend", prepend: "▁" },
  { type: "Replace", pattern: { String: " " }, content: "▁" },
  { type: "Replace", pattern: { Regex: String.raw`\s+` }, content: " " },
  { type: "Replace", pattern: { Regex: "x*" }, content: "-" },
  { type: "NFKC" },
  { type: "NFKD" },
  { type: "Lowercase" },
  { type: "StripAccents" },
  { type: "Nmt" },
  precompiled,
  sequence({ type: "NFD" }, precompiled),
  bert(true, false, false, false),
  bert(false, true, false, false),
  bert(false, false, true, false),
  bert(false, false, null, true),
  bert(true, true, null, true),
  sequence(),
  sequence({ type: "Prepend", prepend: " " }, sequence({ type: "NFD" }, { type: "Replace", pattern: { String: "\u0301" }, content: "" })),
];

function tokenizer(parts) {
  const model = { type: "BPE", vocab: { a: 0 }, merges: [] };
  return Tokenizer.fromString(JSON.stringify({ version: "1.0", added_tokens: [], model, ...parts }));
}

const pre = preTokenizers.map((pre_tokenizer) => tokenizer({ pre_tokenizer }).getPreTokenizer());
const norm = normalizers.map((normalizer) => tokenizer({ normalizer }).getNormalizer());
// By text, not by component: what is alike compresses when it is near.
console.log(
  JSON.stringify({
    preTokenizers,
    normalizers,
    pieces: corpus.map((text) => pre.map((p) => p.preTokenizeString(text).map(([piece]) => piece))),
    normalized: corpus.map((text) => norm.map((n) => n.normalizeString(text))),
  }),
);
