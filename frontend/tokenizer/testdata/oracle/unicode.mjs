// Prints hashes of what the reference's pre-tokenizers and normalizers make of
// every code point but the inner ones of large uniform blocks: node unicode.mjs | gzip -9n > unicode.json.gz
//
// The package tokenizers@0.23.2 is taken from the working directory. TestUnicode
// builds the same texts.
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import path from "node:path";

const { Tokenizer } = createRequire(path.join(process.cwd(), "x.js"))("tokenizers");
const chunk = 0x40;
// Blocks of ideographs, syllables, private use and nothing: [first, last] chunk to leave out.
const uniform = [[0x3500, 0x4d00], [0x4f00, 0x9f00], [0xad00, 0xd600], [0xd800, 0xdfc0], [0xe100, 0xf700], [0x17100, 0x18600],
  [0x20100, 0x2a500], [0x2a800, 0x2b600], [0x2b900, 0x2cd00], [0x2cf00, 0x2ea00], [0x2ef00, 0x2f700], [0x2fb00, 0x2ff00],
  [0x30100, 0x31200], [0x31400, 0x32200], [0x32500, 0xdff00], [0xe0200, 0xeff00], [0xf0100, 0xffe00], [0x100100, 0x10fe00]];

const split = (Regex) => ({ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false });
const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false };
const patterns = [
  String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  String.raw`\w`,
  ...["Mn", "Mc", "Nd", "Nl", "Pc", "P", "Sm", "S", "Z", "Cf", "Co", "Cn"].map((name) => `\\p{${name}}`),
];
const preTokenizers = [
  { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
  ...patterns.map((p) => ({ type: "Sequence", pretokenizers: [split(p), bytes] })),
  { type: "Sequence", pretokenizers: [{ type: "Digits", individual_digits: true }, bytes] },
  { type: "Sequence", pretokenizers: [{ type: "Punctuation", behavior: "Isolated" }, bytes] },
  { type: "Sequence", pretokenizers: [{ type: "Whitespace" }, bytes] },
];
const bert = (clean_text, handle_chinese_chars, strip_accents, lowercase) => ({
  type: "BertNormalizer", clean_text, handle_chinese_chars, strip_accents, lowercase,
});
// A charsmap with the one rule that "a" becomes "b": it tells which characters
// are of one cluster with an "a" before them.
const units = new Uint32Array(512);
const offset = (o) => o << 10;
const a = 0x61, node = 0x100 ^ a, leaf = 0x190;
units[0] = offset(0x100);
units[node] = offset(node ^ leaf) | (1 << 8) | a;
units[leaf] = 1 << 31;
const charsmap = Buffer.concat([Buffer.from(new Uint32Array([units.byteLength]).buffer), Buffer.from(units.buffer), Buffer.from("b\0")]);
const normalizers = [
  ...["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"].map((type) => ({ type })),
  bert(true, false, false, false),
  bert(false, true, false, false),
  bert(false, false, true, false),
  { type: "Precompiled", precompiled_charsmap: charsmap.toString("base64") },
];

const hash = (s) => createHash("sha256").update(s).digest("hex").slice(0, 16);
const model = { type: "BPE", vocab: { a: 0 }, merges: [] };
const make = (parts) => Tokenizer.fromString(JSON.stringify({ version: "1.0", added_tokens: [], model, ...parts }));
const pre = preTokenizers.map((pre_tokenizer) => make({ pre_tokenizer }).getPreTokenizer());
const norm = normalizers.map((normalizer) => make({ normalizer }).getNormalizer());

// Each character among letters, capitals, digits, spaces, marks and quotes.
const surrounded = (c) => `${c}a${c}A1${c} ${c}'${c}\n`;
// Marks of many combining classes, so that where c is sorted tells its own.
const marks = "\u0345\u0360\u035c\u0315\u0301\u1939\u302f\u0316\u302a\u1dce\u0321\u0f72\u0e48\u0e38\u0655\u0651\u064e\u05bf\u05b0\u094d\u3099\u093c\u0334";
const ordered = (c) => `a${marks}${c}a${c}\u0301${c}`;

const chunks = [], pieces = [], normalized = [];
for (let first = 0; first < 0x110000; first += chunk) {
  if (uniform.some(([from, to]) => first >= from && first <= to)) continue;
  const characters = Array.from({ length: chunk }, (_, i) => String.fromCodePoint(first + i));
  chunks.push(first);
  const text = characters.map(surrounded).join("");
  pieces.push(pre.map((p) => hash(p.preTokenizeString(text).map(([piece]) => piece).join("\n"))));
  const combined = characters.map(ordered).join(" ");
  normalized.push(norm.map((n) => hash(n.normalizeString(combined))));
}
console.log(JSON.stringify({ chunk, chunks, preTokenizers, normalizers, pieces, normalized }));
